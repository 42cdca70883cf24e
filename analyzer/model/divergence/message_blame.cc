#include "analyzer/model/divergence/message_blame.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/sequences.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Messages like this one: as far around the communicator, or from one of its two lines.
class Likeness {
 public:
  Likeness(const Run& run, const Communicator& communicator, const Message& message,
           uint64_t number)
      : run_(run),
        size_(communicator.size),
        number_(number),
        distance_(distance(member_of(communicator, message.send.rank)->local_rank,
                           member_of(communicator, message.receive.rank)->local_rank)),
        sends_at_(site_of(run, message.send)),
        receives_at_(site_of(run, message.receive)) {}

  bool includes(const Member& member, const OperationText& operation) const {
    if (operation.collective || operation.sequence != number_) {
      return false;
    }
    const int own = member.local_rank;
    const bool as_far = (operation.receive ? distance(operation.peer, own)
                                           : distance(own, operation.peer)) == distance_;
    const uint64_t site = traintrace::site_of(run_.processes[member.process], operation.stack);
    return as_far || (site != 0 && site == (operation.receive ? receives_at_ : sends_at_));
  }

 private:
  static uint64_t site_of(const Run& run, const SideCall& call) {
    return traintrace::site_of(run.processes[call.process], call.item.operation.stack);
  }
  int distance(int from, int to) const {
    const int64_t apart = int64_t{to} - from;
    return size_ <= 0 ? 0 : static_cast<int>((apart % size_ + size_) % size_);
  }

  const Run& run_;
  int size_;
  uint64_t number_;
  int distance_;
  uint64_t sends_at_;
  uint64_t receives_at_;
};

// The size of all such messages that the member has a part in, if they have one.
std::optional<uint64_t> size_of(const Run& run, const Member& member, const Likeness& like) {
  std::optional<uint64_t> size;
  for (const OperationText& operation : text_of(run, member).recent) {
    if (!like.includes(member, operation)) {
      continue;
    }
    if (size && *size != size_key(operation)) {
      return std::nullopt;
    }
    size = size_key(operation);
  }
  return size;
}

// The side that all others contradict who say anything.
std::optional<Rank> outvoted(const Run& run, const Divergence& fault) {
  const Message& message = fault.messages.front();
  const Communicator& communicator = run.communicators[fault.communicator];
  const Likeness like(run, communicator, message, fault.sequence);
  int for_send = 0;
  int for_receive = 0;
  for (const Member& member : communicator.members) {
    if (member.rank == message.send.rank || member.rank == message.receive.rank) {
      continue;
    }
    const auto size = size_of(run, member, like);
    for_send += size && *size == message.send.item.key ? 1 : 0;
    for_receive += size && *size == message.receive.item.key ? 1 : 0;
  }
  if (for_send > 0 && for_receive == 0) {
    return message.receive.rank;
  }
  return for_receive > 0 && for_send == 0 ? std::optional(message.send.rank) : std::nullopt;
}

enum class SizeHabit : uint8_t { kNone, kKept, kBroken };

// Whether the call has the size of all those of `before`; too few, or not of one size: kNone.
SizeHabit size_habit(const std::vector<const OperationText*>& before, uint64_t size) {
  const bool alike = before.size() >= kHabitTimes &&
                     std::all_of(before.begin(), before.end(), [&](const OperationText* other) {
                       return size_key(*other) == size_key(*before.front());
                     });
  return !alike                              ? SizeHabit::kNone
         : size_key(*before.front()) == size ? SizeHabit::kKept
                                             : SizeHabit::kBroken;
}

bool is_before(const OperationText& other, const OperationText& own) {
  return own.sequence != 0 ? other.sequence < own.sequence : other.index < own.index;
}

// By what its line had sent to that peer before, or received from it; where that was too seldom for
// a habit, by what all lines had.
SizeHabit size_habit_of(const Run& run, const Communicator& communicator, const SideCall& call) {
  const ProcessTrace& trace = run.processes[call.process];
  const OperationText& own = call.item.operation;
  std::vector<const OperationText*> of_line;
  std::vector<const OperationText*> of_all;
  for (const OperationText& other : text_of(run, *member_of(communicator, call.rank)).recent) {
    if (!other.collective && other.receive == own.receive && other.peer == own.peer &&
        is_before(other, own)) {
      of_all.push_back(&other);
      if (site_of(trace, other.stack) == site_of(trace, own.stack)) {
        of_line.push_back(&other);
      }
    }
  }
  return size_habit(of_line.size() < kHabitTimes ? of_all : of_line, call.item.key);
}

// The side that did otherwise than every time before, where the other one did not.
std::optional<Rank> side_that_changed(const Run& run, const Divergence& fault) {
  const Communicator& communicator = run.communicators[fault.communicator];
  const Message& message = fault.messages.front();
  const SizeHabit sender = size_habit_of(run, communicator, message.send);
  const SizeHabit receiver = size_habit_of(run, communicator, message.receive);
  if (sender == SizeHabit::kBroken && receiver == SizeHabit::kKept) {
    return message.send.rank;
  }
  return receiver == SizeHabit::kBroken && sender == SizeHabit::kKept
             ? std::optional(message.receive.rank)
             : std::nullopt;
}

Ranks ends_of(const Message& message) {
  Ranks ends;
  insert(ends, message.send.rank);
  insert(ends, message.receive.rank);
  return ends;
}

void set_culprit(Divergence& fault, Rank culprit) {
  fault.tie = false;
  fault.deviants = {culprit};
  fault.others.clear();
  for (const Message& message : fault.messages) {
    for (const Rank rank : ends_of(message)) {
      if (rank != culprit) {
        insert(fault.others, rank);
      }
    }
  }
  if (fault.own.rank != culprit) {
    std::swap(fault.own, fault.expected);
    std::swap(fault.own_second, fault.expected_second);
  }
}

// Nobody: both sides, as far as they can be told apart.
void set_sides(Divergence& fault) {
  Ranks senders;
  Ranks receivers;
  for (const Message& message : fault.messages) {
    insert(senders, message.send.rank);
    insert(receivers, message.receive.rank);
  }
  Ranks only;
  std::set_difference(receivers.begin(), receivers.end(), senders.begin(), senders.end(),
                      std::back_inserter(only));
  if (only.empty() && senders.size() > 1) {
    only = {senders.back()};
    senders.pop_back();
  }
  fault.deviants = senders;
  fault.others = only;
}

Ranks common_to_all(const Divergence& fault) {
  Ranks common = ends_of(fault.messages.front());
  for (const Message& message : fault.messages) {
    const Ranks ends = ends_of(message);
    std::erase_if(common, [&](Rank rank) { return !contains(ends, rank); });
  }
  return common;
}

// If nothing speaks for the other side.
void blame_one_side(const Run& run, Divergence& fault) {
  const auto by_others = outvoted(run, fault);
  const auto by_habit = side_that_changed(run, fault);
  const auto culprit = by_others ? by_others : by_habit;
  if (culprit && by_habit.value_or(*culprit) == *culprit) {
    set_culprit(fault, *culprit);
    fault.by_habit = !by_others;
  }
}

void blame(const Run& run, Divergence& fault) {
  set_sides(fault);
  const Ranks common = fault.left_over ? Ranks() : common_to_all(fault);
  const bool one_sided = fault.kind == DivergenceKind::kMissingSend ||
                         fault.kind == DivergenceKind::kMissingReceive ||
                         fault.kind == DivergenceKind::kHarmlessMessageType;
  if (fault.messages.size() > 1 && common.size() == 1) {
    set_culprit(fault, common.front());
  } else if (fault.messages.size() == 1 && !one_sided) {
    blame_one_side(run, fault);
  }
  fault.parts = {fault.deviants};
}

bool belong_together(const Divergence& a, const Divergence& b) {
  return a.communicator == b.communicator && a.kind == b.kind &&
         std::any_of(a.messages.begin(), a.messages.end(), [&](const Message& message) {
           const Ranks ends = ends_of(message);
           return std::any_of(b.messages.begin(), b.messages.end(), [&](const Message& other) {
             return contains(ends, other.send.rank) || contains(ends, other.receive.rank);
           });
         });
}

void join(Divergence& into, Divergence& other) {
  if (other.sequence < into.sequence) {
    std::swap(into, other);
  }
  into.messages.insert(into.messages.end(), other.messages.begin(), other.messages.end());
}

}  // namespace

void blame_messages(const Run& run, std::vector<Divergence>& faults) {
  std::vector<Divergence> joined;
  for (Divergence& fault : faults) {
    Divergence one = std::move(fault);
    for (size_t i = 0; i < joined.size();) {
      if (belong_together(joined[i], one)) {
        join(one, joined[i]);
        joined.erase(joined.begin() + static_cast<long>(i));
      } else {
        ++i;
      }
    }
    joined.push_back(std::move(one));
  }
  for (Divergence& fault : joined) {
    std::sort(fault.messages.begin(), fault.messages.end(), [](const Message& a, const Message& b) {
      return std::pair(a.send.rank, a.receive.rank) < std::pair(b.send.rank, b.receive.rank);
    });
    if (fault.kind != DivergenceKind::kWrongPeer) {
      blame(run, fault);
    }
  }
  faults = std::move(joined);
}

}  // namespace traintrace
