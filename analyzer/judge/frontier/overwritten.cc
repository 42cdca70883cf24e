#include "analyzer/judge/frontier/overwritten.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// The communicators on which the GPU of that process has begun something that is not complete, by
// their places; none: starts are not recorded.
std::optional<std::set<size_t>> begun_in(const ProcessTrace& trace) {
  const auto fact = trace.facts.find("begun-on");
  if (fact == trace.facts.end()) {
    return std::nullopt;
  }
  std::set<size_t> places;
  const std::string& text = fact->second;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end; ++at) {
    size_t place = 0;
    const auto [behind, problem] = std::from_chars(at, end, place);
    if (problem == std::errc() && place > 0) {
      places.insert(place - 1);
    }
    at = problem == std::errc() ? behind : at;
  }
  return places;
}

// The number of the next collective that the member's GPU has to complete; 0: there is none, or
// that is not counted.
uint64_t next_of(const CommunicatorText& text) {
  return text.finished != 0 && text.finished < text.collectives ? text.finished + 1 : 0;
}

uint64_t first_kept(const CommunicatorText& text) {
  const auto first =
      std::find_if(text.recent.begin(), text.recent.end(),
                   [](const OperationText& operation) { return operation.collective; });
  return first == text.recent.end() ? text.collectives + 1 : first->sequence;
}

// The only one of them for which that holds.
template <typename Holds>
std::optional<Membership> only_one(const std::vector<Membership>& own, const Holds& holds) {
  std::optional<Membership> found;
  for (const Membership& one : own) {
    if (!holds(one)) {
      continue;
    }
    if (found) {
      return std::nullopt;
    }
    found = one;
  }
  return found;
}

// The call, as a member has it that keeps it; null: none does.
const CallSchema* call_of(const Run& run, const Communicator& communicator, uint64_t sequence) {
  for (const Member& member : communicator.members) {
    const OperationText* const kept = collective_at(text_of(run, member), sequence);
    const CallSchema* const call =
        kept == nullptr ? nullptr : schema_of(run.processes[member.process], kept->call);
    if (call != nullptr) {
      return call;
    }
  }
  return nullptr;
}

// All collectives that its members keep are such, and there are some.
bool calls_all_to_all_only(const Run& run, const Communicator& communicator) {
  bool any = false;
  for (const Member& member : communicator.members) {
    const ProcessTrace& trace = run.processes[member.process];
    for (const OperationText& operation : text_of(run, member).recent) {
      const CallSchema* const call =
          operation.collective ? schema_of(trace, operation.call) : nullptr;
      if (call != nullptr && direction_of(call->name) != Direction::kAllToAll) {
        return false;
      }
      any = any || call != nullptr;
    }
  }
  return any;
}

}  // namespace

std::optional<uint64_t> first_overwritten(const CommunicatorText& text) {
  if (text.recent.empty() && text.collectives == 0) {
    return 0;
  }
  if (text.finished == 0) {
    return std::nullopt;
  }
  const uint64_t next = next_of(text);
  return next < first_kept(text) ? next : 0;
}

bool is_overwritten(const CommunicatorText& text, uint64_t sequence) {
  const uint64_t first = first_overwritten(text).value_or(0);
  return first != 0 && sequence >= first && sequence < first_kept(text);
}

OverwrittenFinder::OverwrittenFinder(const Run& run) : run_(run), begun_(run.processes.size()) {
  std::transform(run.processes.begin(), run.processes.end(), begun_.begin(), begun_in);
}

bool OverwrittenFinder::is_begun(const Member& member) const {
  const auto& begun = begun_[member.process];
  return begun && begun->contains(member.element);
}

const OverwrittenFinder::Counts& OverwrittenFinder::counts_of(size_t communicator,
                                                              uint64_t sequence) {
  const auto [found, is_new] = counts_.try_emplace({communicator, sequence});
  Counts& counts = found->second;
  if (is_new) {
    for (const Member& member : run_.communicators[communicator].members) {
      const CommunicatorText& text = text_of(run_, member);
      counts.through += text.finished >= sequence ? 1 : 0;
      counts.inside += next_of(text) == sequence && is_begun(member) ? 1 : 0;
    }
    counts.all_to_all = is_all_to_all(communicator, sequence);
  }
  return counts;
}

bool OverwrittenFinder::is_all_to_all(size_t communicator, uint64_t sequence) {
  const Communicator& asked = run_.communicators[communicator];
  const CallSchema* const call = call_of(run_, asked, sequence);
  if (call != nullptr) {
    return direction_of(call->name) == Direction::kAllToAll;
  }
  const auto [known, is_new] = all_to_all_only_.try_emplace(communicator);
  if (is_new) {
    known->second = calls_all_to_all_only(run_, asked);
  }
  return known->second;
}

// What others tell about a collective that the member has not completed.  That they are through
// with it tells of its member only where all need all.
OverwrittenFinder::Others OverwrittenFinder::others_in(const Membership& own, uint64_t sequence) {
  const size_t others = run_.communicators[own.communicator].members.size() - 1;
  const Counts& counts = counts_of(own.communicator, sequence);
  const bool is_in = next_of(text_of(run_, *own.member)) == sequence && is_begun(*own.member);
  const size_t inside = counts.inside - (is_in ? 1 : 0);
  return others == 0                                     ? Others::kNothing
         : counts.through == others && counts.all_to_all ? Others::kAllAreThrough
         : inside == others                              ? Others::kAllAreInIt
         : inside > 0                                    ? Others::kSomeAreInIt
                                                         : Others::kNothing;
}

// The order of operations of several groups is not known of what is not kept.  If starts are
// recorded, the GPU is in what it has begun; if it has begun nothing, it has yet to begin what
// others wait for inside.  Else it is known only where all others have completed what it has not.
Overwritten OverwrittenFinder::find(const std::vector<Membership>& own) {
  const auto text = [&](const Membership& one) -> const CommunicatorText& {
    return text_of(run_, *one.member);
  };
  if (std::all_of(own.begin(), own.end(), [&](const Membership& one) {
        return first_overwritten(text(one)) == uint64_t{0};
      })) {
    return {OverwrittenKind::kNothing, {}, 0, GpuState::kPending};
  }
  const auto begun = own.empty() ? std::nullopt : begun_[own.front().member->process];
  const auto others_say = [&](const Membership& one, Others what) {
    const uint64_t next = next_of(text(one));
    return next != 0 && others_in(one, next) == what;
  };
  std::optional<Membership> at;
  GpuState gpu = GpuState::kPending;
  if (!begun) {
    at = only_one(own, [&](const auto& one) { return others_say(one, Others::kAllAreThrough); });
  } else if (!begun->empty()) {
    gpu = GpuState::kReached;
    at = begun->size() > 1
             ? std::nullopt
             : only_one(own, [&](const auto& one) { return begun->contains(one.member->element); });
  } else {
    gpu = GpuState::kEnqueued;
    const auto all = std::find_if(own.begin(), own.end(), [&](const auto& one) {
      return others_say(one, Others::kAllAreInIt);
    });
    at = all != own.end() ? std::optional(*all) : only_one(own, [&](const auto& one) {
      return others_say(one, Others::kSomeAreInIt);
    });
  }
  const uint64_t next = at ? next_of(text(*at)) : 0;
  return next == 0 ? Overwritten{} : Overwritten{OverwrittenKind::kStandsAt, *at, next, gpu};
}

}  // namespace traintrace
