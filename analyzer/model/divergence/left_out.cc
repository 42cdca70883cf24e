#include "analyzer/model/divergence/left_out.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

bool is_same(const SequenceItem* a, const SequenceItem* b) {
  return a != nullptr && b != nullptr && a->key == b->key && a->site == b->site;
}

SideCall call_in(const Sequence& sequence, uint64_t number) {
  return {sequence.member->rank, sequence.member->process, *sequence.at(number)};
}

// By number in the rank's sequence.
struct Repeated {
  uint64_t second = 0;                     // the call that was made right before as well
  uint64_t earlier = 0, earlier_next = 0;  // two such of before, with others between

  uint64_t left_out() const { return earlier_next - earlier - 1; }
};

std::optional<Repeated> find_repeated(const Sequence& own, uint64_t number) {
  Repeated found;
  found.second = is_same(own.at(number), own.at(number + 1))   ? number + 1
                 : is_same(own.at(number), own.at(number - 1)) ? number
                                                               : 0;
  if (found.second == 0) {
    return std::nullopt;
  }
  found.earlier_next = found.second - 1;
  for (uint64_t number = found.second - 1; number-- > own.first;) {
    if (is_same(own.at(number), own.at(found.second))) {
      if (number + 1 < found.earlier_next) {
        found.earlier = number;
        return found;
      }
      found.earlier_next = number;
    }
  }
  return std::nullopt;
}

// The others made those calls there, and what they made then is what this rank made.
bool others_agree(const Sequence& own, const Sequence& normal, const Repeated& repeated) {
  const uint64_t length = repeated.left_out();
  for (uint64_t i = 0; i < length; ++i) {
    if (!is_same(normal.at(repeated.second + i), own.at(repeated.earlier + 1 + i))) {
      return false;
    }
  }
  for (uint64_t number = repeated.second;
       number <= own.reached && number + length <= normal.reached; ++number) {
    if (!is_same(own.at(number), normal.at(number + length))) {
      return false;
    }
  }
  return true;
}

// Calls, and from where, in their order; how often each was made.
using CallRow = std::vector<std::pair<uint32_t, uint32_t>>;
using Calls = std::map<std::pair<uint32_t, uint32_t>, int>;

// Those of one thread, without what they called themselves.
class CallsBetween {
 public:
  CallsBetween(const ProcessTrace& events, const Sequence& own, uint64_t number)
      : events_(events), own_(own) {
    const TimeNs enter = own.at(number)->operation.enter;
    const auto call = std::find_if(
        events.events.begin(), events.events.end(),
        [&](const CallRecord& event) { return event.enter == enter && !event.moment; });
    is_known_ = call != events.events.end();
    thread_ = is_known_ ? call->thread : 0;
  }

  bool is_known() const { return is_known_; }

  // After the `first`th collective and before the one that follows it, which may be still to come.
  CallRow behind(uint64_t first) const {
    CallRow calls;
    const SequenceItem* const next = own_.at(first + 1);
    TimeNs until = own_.at(first)->operation.leave;
    for (const CallRecord& event : events_.events) {
      const bool is_between = event.thread == thread_ && !event.moment && !event.enter_lost &&
                              event.enter >= until &&
                              (next == nullptr || event.enter < next->operation.enter);
      if (is_between && until != 0) {
        calls.emplace_back(event.call, event.stack);
        until = event.returned ? std::max(event.leave, until) : std::max(event.enter, until);
      }
    }
    return calls;
  }

  void add(uint64_t first, Calls& calls) const {
    for (const auto& call : behind(first)) {
      ++calls[call];
    }
  }

 private:
  const ProcessTrace& events_;
  const Sequence& own_;
  bool is_known_ = false;
  uint32_t thread_ = 0;
};

// Of `made` in excess of `usual`, and if all were made, what is lacking too.
int out_of_place(const Calls& made, const Calls& usual, bool all_made) {
  Calls left = made;
  for (const auto& [call, times] : usual) {
    left[call] -= times;
  }
  int sum = 0;
  for (const auto& [call, times] : left) {
    sum += times > 0 ? times : all_made ? -times : 0;
  }
  return sum;
}

template <typename Same>
size_t common_end(const CallRow& a, const CallRow& b, const Same& same) {
  const auto [at, other] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend(), same);
  return static_cast<size_t>(at - a.rbegin());
}

// What leads to the first of the two in each step came once more before the second, as the forward
// pass of a new step: more than what leads to the call behind it, and to any call.
bool has_begun_anew(const ProcessTrace& events, const Sequence& own, const Repeated& repeated) {
  const CallsBetween between(events, own, repeated.second);
  if (!between.is_known()) {
    return false;
  }
  const CallRow made = between.behind(repeated.second - 1);
  const CallRow usual_behind = between.behind(repeated.earlier);
  const size_t common =
      common_end(made, between.behind(repeated.earlier_next - 1), std::equal_to<>());
  const auto is_same_call = [](const auto& a, const auto& b) { return a.first == b.first; };
  return common > common_end(made, usual_behind, is_same_call) &&
         made.size() - common <= usual_behind.size();
}

bool is_rather_left_out(const ProcessTrace& events, const Sequence& own, const Repeated& repeated) {
  const CallsBetween between(events, own, repeated.second);
  if (!between.is_known()) {
    return false;
  }
  Calls behind_first, usual, made, usual_around;
  between.add(repeated.second - 1, behind_first);
  made = behind_first;
  between.add(repeated.second, made);
  between.add(repeated.earlier, usual);
  for (uint64_t number = repeated.earlier; number < repeated.earlier_next; ++number) {
    between.add(number, usual_around);
  }
  return out_of_place(behind_first, usual_around, true) <
         out_of_place(made, usual, repeated.second < own.reached);
}

// Of that communicator, after the `first`th call in `own` and before the one that follows it.
size_t collectives_between(const CommunicatorText& text, const Sequence& own, uint64_t first) {
  return static_cast<size_t>(
      std::count_if(text.recent.begin(), text.recent.end(), [&](const OperationText& operation) {
        return operation.collective && operation.enter >= own.at(first)->operation.enter &&
               operation.enter < own.at(first + 1)->operation.enter;
      }));
}

// A step begun anew makes its calls on other communicators again.  Those that came before the first
// of the two in each step did not come between them, and the other rank did not make them either,
// as it would have what was left out.
bool lacks_calls_elsewhere(const Run& run, const Communicator& communicator, const Sequence& own,
                           Rank normal, const Repeated& repeated) {
  return std::any_of(run.communicators.begin(), run.communicators.end(),
                     [&](const Communicator& other) {
                       const Member* const member = member_of(other, own.member->rank);
                       const Member* const theirs = member_of(other, normal);
                       if (&other == &communicator || member == nullptr || theirs == nullptr) {
                         return false;
                       }
                       const CommunicatorText& text = text_of(run, *member);
                       return collectives_between(text, own, repeated.second - 1) <
                                  collectives_between(text, own, repeated.earlier_next - 1) &&
                              text_of(run, *theirs).collectives <= text.collectives;
                     });
}

}  // namespace

void take_for_left_out(const Run& run, const ReadEvents& read_events, Divergence& divergence) {
  const Communicator& communicator = run.communicators[divergence.communicator];
  const Member* const deviant = member_of(communicator, divergence.own.rank);
  const bool is_open = divergence.kind == DivergenceKind::kExtra && divergence.open &&
                       divergence.length == 1 && !divergence.by_site && !divergence.others.empty();
  const ProcessTrace* const events =
      is_open ? read_events(run.processes[deviant->process]) : nullptr;
  if (events == nullptr) {
    return;
  }
  const Sequence own = sequence_of(run, *deviant);
  const Sequence normal = sequence_of(run, *member_of(communicator, divergence.others.front()));
  const auto repeated = find_repeated(own, divergence.own.item.operation.sequence);
  if (!repeated || !others_agree(own, normal, *repeated)) {
    return;
  }
  const bool anew =
      has_begun_anew(*events, own, *repeated) &&
      !lacks_calls_elsewhere(run, communicator, own, divergence.others.front(), *repeated);
  if (!anew && !is_rather_left_out(*events, own, *repeated)) {
    return;
  }
  divergence.rest_of_step = anew;
  divergence.kind = DivergenceKind::kSkipped;
  divergence.length = repeated->left_out();
  divergence.sequence = repeated->second;
  divergence.sequence_last = repeated->second + divergence.length - 1;
  divergence.own = call_in(own, repeated->second);
  divergence.expected = call_in(normal, repeated->second);
  const uint64_t first = repeated->second + divergence.length;
  divergence.matches = normal.reached < first
                           ? 0
                           : std::min(normal.reached - first, own.reached - repeated->second) + 1;
}

}  // namespace traintrace
