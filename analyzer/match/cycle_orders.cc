#include "analyzer/match/cycle_orders.h"

#include <algorithm>
#include <vector>

#include "analyzer/match/program.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/sequences.h"
#include "analyzer/model/waiting/cycles.h"

namespace traintrace {
namespace {

const Waiter* waiter_among(const Wait& wait, Rank rank) {
  const auto found = std::find_if(wait.waiters.begin(), wait.waiters.end(),
                                  [&](const Waiter& waiter) { return waiter.rank == rank; });
  return found == wait.waiters.end() ? nullptr : &*found;
}

bool is_awaited_in(const Wait& wait, Rank rank) {
  return std::any_of(wait.awaited.begin(), wait.awaited.end(),
                     [&](const Awaited& awaited) { return awaited.rank == rank; });
}

// Comes to `wait` before `other`: it has not come to that, or did later.
bool comes_first_to(const Wait& wait, const Wait& other, Rank rank) {
  const Waiter* const here = waiter_among(wait, rank);
  const Waiter* const there = waiter_among(other, rank);
  return here != nullptr &&
         (there == nullptr ? is_awaited_in(other, rank) : here->since < there->since);
}

// Calls of two ranks from one line, with the same arguments.
bool is_one_call(const ProcessTrace& a, const OperationText& own, const ProcessTrace& b,
                 const OperationText& other) {
  return call_name(a, own.call) == call_name(b, other.call) && own.count == other.count &&
         site_of(a, own.stack) == site_of(b, other.stack);
}

// It has a communicator of its own in place of that of `wait`, has come as far there as those that
// are awaited in it, and has made the call in which the others wait, in earlier steps.
bool is_before_its_own(const Run& run, const Wait& wait, Rank rank) {
  const Waiter& there = wait.waiters.front();
  const Communicator& others = run.communicators[wait.communicator];
  const Member* const their_member = member_of(others, there.rank);
  if (wait.kind != WaitKind::kCollective || member_of(others, rank) != nullptr ||
      their_member == nullptr) {
    return false;
  }
  const auto counterpart = counterpart_of(run, wait.communicator, there.rank, rank);
  if (!counterpart || run.communicators[*counterpart].size != others.size) {
    return false;
  }
  const Member& own_member = *member_of(run.communicators[*counterpart], rank);
  const ProcessTrace& own_trace = run.processes[own_member.process];
  const ProcessTrace& their_trace = run.processes[their_member->process];
  const CommunicatorText& own = text_of(run, own_member);
  const OperationText* const called = collective_at(text_of(run, *their_member), wait.sequence);
  const OperationText* const before = collective_at(text_of(run, *their_member), wait.sequence - 1);
  const OperationText* const last = collective_at(own, wait.sequence - 1);
  return called != nullptr && before != nullptr && last != nullptr &&
         sequence_reached(own_trace, own) == last->sequence &&
         is_one_call(own_trace, *last, their_trace, *before) &&
         std::any_of(own.recent.begin(), own.recent.end(), [&](const OperationText& earlier) {
           return earlier.collective && is_one_call(own_trace, earlier, their_trace, *called);
         });
}

CycleOrder order_with_first(const Run& run, const Wait& wait, const Wait& other) {
  CycleOrder order;
  for (const Waiter& waiter : wait.waiters) {
    if (comes_first_to(wait, other, waiter.rank)) {
      order.ranks.push_back(waiter.rank);
    } else if (is_before_its_own(run, other, waiter.rank)) {
      order.alike.push_back(waiter.rank);
    }
  }
  return order;
}

}  // namespace

std::optional<CycleOrders> orders_in(const Run& run, const Hang& cycle) {
  std::vector<const Wait*> parts;
  for (const Wait& wait : run.waits.waits) {
    if (is_part(wait, cycle.roots)) {
      parts.push_back(&wait);
    }
  }
  return parts.size() != 2
             ? std::nullopt
             : std::optional(CycleOrders{order_with_first(run, *parts[0], *parts[1]),
                                         order_with_first(run, *parts[1], *parts[0])});
}

}  // namespace traintrace
