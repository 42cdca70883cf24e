#include "analyzer/judge/frontier/untraced_root.h"

#include <algorithm>
#include <limits>

#include "analyzer/model/progress.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// What came before it on that communicator came before none of the earlier calls from its line.
bool is_out_of_order(const CommunicatorText& text, uint64_t sequence) {
  const std::vector<OperationText>& recent = text.recent;
  const OperationText* const own = collective_at(text, sequence);
  if (own == nullptr || own == recent.data()) {
    return false;
  }
  const auto alike = [](const OperationText& a, const OperationText& b) {
    return a.call == b.call && a.stack == b.stack;
  };
  size_t times = 0;
  for (const OperationText* other = recent.data() + 1; other < own; ++other) {
    if (alike(*other, *own)) {
      ++times;
      if (alike(*(other - 1), *(own - 1))) {
        return false;
      }
    }
  }
  return times >= kHabitTimes;
}

// What the one without a trace called is not known.  A rank that waits for it in a call that never
// came after such a call before may have left out the one that the other is in.  Most members do
// not make one mistake, whether they stand there or wait in something before it: an evaluation or a
// checkpoint came before.
bool is_asked_by_mistake(const Run& run, const Wait& wait) {
  if (wait.kind != WaitKind::kCollective) {
    return false;
  }
  const Communicator& communicator = run.communicators[wait.communicator];
  const auto entered =
      wait.waiters.size() +
      static_cast<size_t>(std::count_if(wait.awaited.begin(), wait.awaited.end(),
                                        [](const Awaited& awaited) { return awaited.entered; }));
  return 2 * entered <= static_cast<size_t>(communicator.size) &&
         std::any_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
           return is_out_of_order(text_of(run, *member_of(communicator, waiter.rank)),
                                  wait.sequence);
         });
}

// The first message to a rank, as far as is kept, of one that has exchanged such messages with
// others again and again: it may have named a wrong peer, and waits for the one without a trace by
// mistake.
bool is_asked_of_stranger(const Run& run, const Wait& wait) {
  if (wait.kind == WaitKind::kCollective || wait.waiters.size() != 1 || wait.details.peer < 0) {
    return false;
  }
  const Communicator& communicator = run.communicators[wait.communicator];
  const Member* const own = member_of(communicator, wait.waiters.front().rank);
  size_t others = 0;
  for (const OperationText& operation : text_of(run, *own).recent) {
    if (operation.collective || operation.receive != wait.details.receive ||
        operation.enter >= wait.details.enter) {
      continue;
    }
    if (operation.peer == wait.details.peer) {
      return false;
    }
    ++others;
  }
  return others >= kHabitTimes;
}

// All of them are known to be in it on their GPUs, where no later call of a host matters.
bool are_all_in_it(const Run& run, const Wait& wait) {
  const Communicator& communicator = run.communicators[wait.communicator];
  return std::all_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
    const Member& member = *member_of(communicator, waiter.rank);
    const OperationText* const own = collective_at(text_of(run, member), wait.sequence);
    return own != nullptr && gpu_state(run.processes[member.process], *own) == GpuState::kReached;
  });
}

// All of them wait in the same collective, and not all came to the same one after it: hosts go on
// until they wait themselves, and one that stopped before may be stuck, or gone.
bool has_one_stopped_short(const Run& run, const Wait& wait) {
  const Communicator& communicator = run.communicators[wait.communicator];
  uint64_t least = std::numeric_limits<uint64_t>::max();
  uint64_t most = 0;
  for (const Waiter& waiter : wait.waiters) {
    const Member& member = *member_of(communicator, waiter.rank);
    const uint64_t own = sequence_reached(run.processes[member.process], text_of(run, member));
    least = std::min(least, own);
    most = std::max(most, own);
  }
  return least < most;
}

bool has_member(const Communicator& communicator, Rank rank) {
  return member_of(communicator, rank) != nullptr || contains(communicator.absent, rank);
}

// It may wait in a group that it has with none but one of those that wait for it.  Of more members
// the others would be seen to wait there.  Whether that one left out a call there cannot be known
// where what is complete is left out of its dump.
bool may_wait_in_a_pair(const Run& run, const WaitGraph& graph, const Hang& hang) {
  return std::any_of(
      run.communicators.begin(), run.communicators.end(), [&](const Communicator& communicator) {
        if (communicator.members.size() != 1 || !has_member(communicator, hang.roots.front())) {
          return false;
        }
        const Member& other = communicator.members.front();
        const bool is_awaited_there =
            std::any_of(graph.waits.begin(), graph.waits.end(), [&](const Wait& wait) {
              return &run.communicators[wait.communicator] == &communicator;
            });
        return !is_awaited_there && contains(hang.victims, other.rank) &&
               run.processes[other.process].facts.contains("entries-left-out");
      });
}

// One comes to its operations after those of its own groups.
bool is_of_all(const Run& run, const Communicator& communicator) {
  return communicator.members.size() + communicator.absent.size() ==
         run.ranks.size() + run.missing.size();
}

size_t groups_of(const Run& run, Rank rank) {
  return static_cast<size_t>(std::count_if(
      run.communicators.begin(), run.communicators.end(), [&](const Communicator& communicator) {
        return communicator.size != 1 && has_member(communicator, rank);
      }));
}

// Ranks with a trace that it has a group with, but for one of all ranks.  In a group of others too
// it does not wait for one without a trace alone: these stand in something before it.
Ranks fellows_of(const Run& run, Rank rank) {
  Ranks fellows;
  for (const Communicator& communicator : run.communicators) {
    if (has_member(communicator, rank) && !is_of_all(run, communicator)) {
      for (const Member& member : communicator.members) {
        insert(fellows, member.rank);
      }
    }
  }
  std::erase(fellows, rank);
  return fellows;
}

// A group of none but ranks without a trace is recorded by nobody.  Whoever is with it in its
// largest group has as many groups as it, as a rule.
bool are_groups_known(const Run& run, Rank rank) {
  const Communicator* largest = nullptr;
  for (const Communicator& communicator : run.communicators) {
    const bool is_larger =
        largest == nullptr || communicator.members.size() > largest->members.size();
    if (has_member(communicator, rank) && !is_of_all(run, communicator) && is_larger) {
      largest = &communicator;
    }
  }
  return largest != nullptr &&
         std::all_of(largest->members.begin(), largest->members.end(), [&](const Member& member) {
           return groups_of(run, member.rank) <= groups_of(run, rank);
         });
}

}  // namespace

Rank sole_untraced_root(const Run& run, const WaitWalk& walk, const Ranks& untraced) {
  for (const Rank rank : untraced) {
    Ranks others = untraced;
    std::erase(others, rank);
    const Ranks own = walk.all_before({rank});
    const Ranks theirs = walk.all_before(others);
    const Ranks fellows = fellows_of(run, rank);
    const bool waits_for_none = are_groups_known(run, rank) &&
                                std::all_of(fellows.begin(), fellows.end(), [&](Rank fellow) {
                                  return contains(own, fellow) && !contains(theirs, fellow);
                                });
    const bool may_hold_up_all = std::all_of(others.begin(), others.end(), [&](Rank other) {
      const Ranks with = fellows_of(run, other);
      return std::any_of(with.begin(), with.end(),
                         [&](Rank fellow) { return contains(own, fellow); });
    });
    if (waits_for_none && may_hold_up_all) {
      return rank;
    }
  }
  return {};
}

bool may_lie_with_a_waiter(const Run& run, const WaitGraph& graph, const Hang& hang) {
  const Wait& wait = graph.waits[hang.wait];
  const auto is_about_it = [&](const Wait& other) {
    return std::any_of(other.awaited.begin(), other.awaited.end(),
                       [&](const Awaited& awaited) { return contains(hang.roots, awaited.rank); });
  };
  return hang.fate == Fate::kUntraced &&
         (may_wait_in_a_pair(run, graph, hang) ||
          (wait.kind == WaitKind::kCollective && has_one_stopped_short(run, wait) &&
           !are_all_in_it(run, wait)) ||
          std::any_of(graph.waits.begin(), graph.waits.end(), [&](const Wait& other) {
            return (is_about_it(other) && is_asked_by_mistake(run, other)) ||
                   (contains(hang.victims, other.waiters.front().rank) &&
                    is_asked_of_stranger(run, other));
          }));
}

}  // namespace traintrace
