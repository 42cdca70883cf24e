#include "analyzer/model/circles.h"

#include <algorithm>

#include "analyzer/model/activity.h"
#include "analyzer/model/peers.h"

namespace traintrace {
namespace {

template <class Test>
bool all_parts(const Run& run, const Hang& circle, Test test) {
  return std::all_of(run.waits.waits.begin(), run.waits.waits.end(),
                     [&](const Wait& wait) { return !is_part(wait, circle.roots) || test(wait); });
}

bool is_blocked(const Run& run, const Hang& circle, Rank rank) {
  return std::any_of(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& wait) {
    return is_part(wait, circle.roots) &&
           std::any_of(wait.waiters.begin(), wait.waiters.end(),
                       [&](const Waiter& waiter) { return waiter.rank == rank && waiter.blocked; });
  });
}

bool is_polling(const Run& run, Rank rank) {
  const RankState* state = state_of(run, rank);
  const auto activity = state == nullptr ? std::nullopt : activity_of(run, *state);
  return activity && (activity->queries > 0 || activity->kind == "query");
}

// It has called its side, and that lies on a stream behind what it waits in.
bool has_called(const Run& run, const Wait& wait, Rank awaited) {
  const Communicator& communicator = run.communicators[wait.communicator];
  const Member* peer = member_of(communicator, awaited);
  const Member* member = member_of(communicator, wait.waiters.front().rank);
  return (wait.kind == WaitKind::kSend || wait.kind == WaitKind::kReceive) && peer != nullptr &&
         member != nullptr &&
         has_posted(run, *peer, wait.kind == WaitKind::kSend, member->local_rank, wait.sequence);
}

Order order_of(const Run& run, const Hang& circle, const Wait& wait, const Awaited& awaited) {
  if (awaited.held_up || awaited.entered || is_blocked(run, circle, awaited.rank) ||
      has_called(run, wait, awaited.rank)) {
    return Order::kCertain;
  }
  return is_polling(run, awaited.rank) ? Order::kPolled : Order::kNone;
}

}  // namespace

bool is_part(const Wait& wait, const Ranks& circle) {
  const auto in_circle = [&](const auto& other) { return contains(circle, other.rank); };
  return std::any_of(wait.waiters.begin(), wait.waiters.end(), in_circle) &&
         std::any_of(wait.awaited.begin(), wait.awaited.end(), in_circle);
}

Order order_of(const Run& run, const Hang& circle) {
  Order worst = Order::kCertain;
  for (const Wait& wait : run.waits.waits) {
    for (const Awaited& awaited : wait.awaited) {
      if (is_part(wait, circle.roots) && contains(circle.roots, awaited.rank)) {
        worst = std::max(worst, order_of(run, circle, wait, awaited));
      }
    }
  }
  return worst;
}

bool is_of_peers(const Run& run, const Hang& circle) {
  return all_parts(run, circle, [](const Wait& wait) {
    return wait.kind == WaitKind::kSend || wait.kind == WaitKind::kReceive;
  });
}

bool is_first_use(const Run& run, const Hang& circle) {
  const bool in_nccl = std::all_of(circle.roots.begin(), circle.roots.end(), [&](Rank rank) {
    const RankState* state = state_of(run, rank);
    return state != nullptr && blocked_in_nccl(trace_of(run, *state)) != 0;
  });
  return in_nccl && all_parts(run, circle, [](const Wait& wait) {
           return wait.kind != WaitKind::kInit && wait.sequence == 1;
         });
}

}  // namespace traintrace
