#include "analyzer/judge/frontier/frontier_cycle.h"

#include <algorithm>

namespace traintrace {
namespace {

bool has_waiter_of(const Wait& wait, const Ranks& cycle) {
  return std::any_of(wait.waiters.begin(), wait.waiters.end(),
                     [&](const Waiter& waiter) { return contains(cycle, waiter.rank); });
}

// A message between two of them of which one side was not issued.
bool is_unanswered(const Wait& wait, const Ranks& cycle) {
  return wait.kind != WaitKind::kCollective && !wait.awaited.front().entered &&
         contains(cycle, wait.awaited.front().rank) && contains(cycle, wait.waiters.front().rank);
}

}  // namespace

std::optional<Rank> missing_in(const std::vector<Wait>& waits, const Ranks& cycle) {
  Ranks missing;
  for (const Wait& wait : waits) {
    Ranks own;
    for (const Awaited& awaited : wait.awaited) {
      if (!awaited.entered && contains(cycle, awaited.rank)) {
        insert(own, awaited.rank);
      }
    }
    if (has_waiter_of(wait, cycle) && wait.kind == WaitKind::kCollective &&
        own.size() < wait.waiters.size()) {
      std::for_each(own.begin(), own.end(), [&](Rank rank) { insert(missing, rank); });
    }
  }
  return missing.size() == 1 ? std::optional(missing.front()) : std::nullopt;
}

std::optional<Rank> only_one_in_other_order(const Run& run, const Standings& standings,
                                            const std::vector<Wait>& waits, const Ranks& cycle) {
  std::vector<const Wait*> theirs;
  for (const Wait& wait : waits) {
    if (has_waiter_of(wait, cycle)) {
      theirs.push_back(&wait);
    }
  }
  if (theirs.size() != 2 || theirs[0]->kind != WaitKind::kCollective ||
      theirs[1]->kind != WaitKind::kCollective) {
    return std::nullopt;
  }
  Ranks orders[2];
  for (const Member& member : run.communicators[theirs[0]->communicator].members) {
    const Member* const other = member_of(run.communicators[theirs[1]->communicator], member.rank);
    const OperationText* const first = standings.collective(member, theirs[0]->sequence);
    const OperationText* const second =
        other == nullptr ? nullptr : standings.collective(*other, theirs[1]->sequence);
    if (first != nullptr && second != nullptr) {
      orders[first->enter < second->enter ? 0 : 1].push_back(member.rank);
    }
  }
  const size_t fewer = orders[0].size() < orders[1].size() ? 0 : 1;
  return orders[fewer].size() == 1 && orders[1 - fewer].size() > 1
             ? std::optional(orders[fewer].front())
             : std::nullopt;
}

std::optional<size_t> unanswered_in(const std::vector<Wait>& waits, const Ranks& cycle) {
  std::optional<size_t> first;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (is_unanswered(waits[i], cycle) &&
        (!first || waits[i].details.enter < waits[*first].details.enter)) {
      first = i;
    }
  }
  return first;
}

bool may_be_answered(const std::vector<Wait>& waits, const Ranks& cycle, Rank rank) {
  Ranks peers;
  for (const Wait& wait : waits) {
    if (is_unanswered(wait, cycle) && wait.waiters.front().rank == rank && wait.sequence == 0) {
      insert(peers, wait.awaited.front().rank);
    }
  }
  return peers.size() > 1;
}

}  // namespace traintrace
