#include "analyzer/model/waiting/cycles.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/waiting/wait_walk.h"

namespace traintrace {
namespace {

template <class Test>
bool all_parts(const std::vector<Wait>& waits, const Hang& cycle, Test test) {
  return std::all_of(waits.begin(), waits.end(),
                     [&](const Wait& wait) { return !is_part(wait, cycle.roots) || test(wait); });
}

template <class Test>
bool all_parts(const Run& run, const Hang& cycle, Test test) {
  return all_parts(run.waits.waits, cycle, test);
}

bool is_blocked(const Run& run, const Hang& cycle, Rank rank) {
  return std::any_of(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& wait) {
    return is_part(wait, cycle.roots) &&
           std::any_of(wait.waiters.begin(), wait.waiters.end(),
                       [&](const Waiter& waiter) { return waiter.rank == rank && waiter.blocked; });
  });
}

// Its oldest operation does not end, by what its GPU said, and nothing is known of its streams.
bool waits_by_order(const Run& run, const Hang& cycle, Rank rank) {
  return std::any_of(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& wait) {
    return is_part(wait, cycle.roots) &&
           std::any_of(wait.awaited.begin(), wait.awaited.end(),
                       [](const Awaited& awaited) { return awaited.by_order; }) &&
           std::any_of(wait.waiters.begin(), wait.waiters.end(),
                       [&](const Waiter& waiter) { return waiter.rank == rank; });
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

bool is_in_call(const ThreadText& thread) {
  return thread.open[0].enter != 0 || thread.open[1].enter != 0;
}

// Its operations of that communicator came from this thread, or some of them.
bool has_issued(const ProcessTrace& trace, const Member& member, const ThreadText& thread) {
  return std::any_of(trace.events.begin(), trace.events.end(), [&](const CallRecord& event) {
    const CallSchema* schema = schema_of(trace, event.call);
    return event.thread == thread.serial && schema != nullptr &&
           (schema->kind == "collective" || schema->kind == "send-recv") &&
           communicator_of(trace, event) == member.element + 1;
  });
}

// A watchdog only asks.
bool does_work(const Run& run, const ProcessTrace& trace, const RankState& state,
               const ThreadText& thread) {
  const CallSchema* last = thread.last_call ? schema_of(trace, *thread.last_call) : nullptr;
  return last != nullptr && last->kind != "query" && last->kind != "comm-query" &&
         elapsed(thread.last_call_time, state.last_seen) < run.hang_after;
}

// Of a rank of which a thread is inside a call that waits: what its others may still do.
Order order_of_threads(const Run& run, const Wait& wait, Rank rank) {
  const Member* member = member_of(run.communicators[wait.communicator], rank);
  const RankState* state = state_of(run, rank);
  if (member == nullptr || state == nullptr) {
    return Order::kCertain;
  }
  const ProcessTrace& trace = trace_of(run, *state);
  Order worst = Order::kCertain;
  for (const ThreadText& thread : trace.threads) {
    if (is_in_call(thread) || thread.ended != 0) {
      continue;
    }
    const bool comes = has_issued(trace, *member, thread);
    const bool works = does_work(run, trace, *state, thread);  // if only for another rank
    worst = std::max(worst, works && comes   ? Order::kNone
                            : works || comes ? Order::kThread
                                             : Order::kCertain);
  }
  return worst;
}

Order order_of(const Run& run, const Hang& cycle, const Wait& wait, const Awaited& awaited) {
  if (awaited.by_order || waits_by_order(run, cycle, awaited.rank)) {
    return Order::kCalled;
  }
  if (awaited.held_up || has_called(run, wait, awaited.rank)) {
    return Order::kCertain;
  }
  if (is_blocked(run, cycle, awaited.rank)) {
    return order_of_threads(run, wait, awaited.rank);
  }
  return is_polling(run, awaited.rank) ? Order::kPolled : Order::kNone;
}

}  // namespace

bool is_part(const Wait& wait, const Ranks& cycle) {
  const auto in_cycle = [&](const auto& other) { return contains(cycle, other.rank); };
  return std::any_of(wait.waiters.begin(), wait.waiters.end(), in_cycle) &&
         std::any_of(wait.awaited.begin(), wait.awaited.end(), in_cycle);
}

Order order_of(const Run& run, const Hang& cycle) {
  Order worst = Order::kCertain;
  for (const Wait& wait : run.waits.waits) {
    for (const Awaited& awaited : wait.awaited) {
      if (is_part(wait, cycle.roots) && contains(cycle.roots, awaited.rank)) {
        worst = std::max(worst, order_of(run, cycle, wait, awaited));
      }
    }
  }
  return worst;
}

bool is_of_peers(const Run& run, const Hang& cycle) {
  return all_parts(run, cycle, [](const Wait& wait) {
    return wait.kind == WaitKind::kSend || wait.kind == WaitKind::kReceive;
  });
}

bool is_all_called(const std::vector<Wait>& waits, const Hang& cycle) {
  return all_parts(waits, cycle, [](const Wait& wait) {
    return std::all_of(wait.awaited.begin(), wait.awaited.end(),
                       [](const Awaited& awaited) { return awaited.held_up; });
  });
}

bool is_of_receives(const Run& run, const Hang& cycle) {
  return all_parts(run, cycle, [](const Wait& wait) { return wait.kind == WaitKind::kReceive; });
}

bool is_against_collective(const Run& run, const Hang& cycle) {
  const size_t communicator = run.waits.waits[cycle.wait].communicator;
  return all_parts(run, cycle,
                   [&](const Wait& wait) {
                     return wait.communicator == communicator && wait.kind != WaitKind::kInit;
                   }) &&
         !is_of_peers(run, cycle) && !all_parts(run, cycle, [](const Wait& wait) {
           return wait.kind == WaitKind::kCollective;
         });
}

bool frees_all(const Run& run, const Hang& cycle, Rank rank) {
  return WaitWalk(cycle.roots, run.waits.waits).frees_all(cycle.roots, rank);
}

std::optional<Rank> repair_of(const Run& run, const Hang& cycle) {
  const Rank rank = WaitWalk(cycle.roots, run.waits.waits).repair_of(cycle.roots);
  return rank.value < 0 ? std::nullopt : std::optional(rank);
}

Ranks missing_from_creation(const Run& run, const Hang& cycle) {
  Ranks creating;
  Ranks elsewhere;
  Ranks missing;
  for (const Wait& wait : run.waits.waits) {
    if (!is_part(wait, cycle.roots)) {
      continue;
    }
    for (const Waiter& waiter : wait.waiters) {
      insert(wait.kind == WaitKind::kInit ? creating : elsewhere, waiter.rank);
    }
    for (const Awaited& awaited : wait.awaited) {
      if (wait.kind == WaitKind::kInit && !awaited.entered) {
        insert(missing, awaited.rank);
      }
    }
  }
  return missing == elsewhere && missing.size() < creating.size() ? missing : Ranks();
}

bool is_first_use(const Run& run, const Hang& cycle) {
  const bool in_nccl = std::all_of(cycle.roots.begin(), cycle.roots.end(), [&](Rank rank) {
    const RankState* state = state_of(run, rank);
    return state != nullptr && blocked_in_nccl(run, *state) != 0;
  });
  return in_nccl && all_parts(run, cycle, [](const Wait& wait) {
           return wait.kind != WaitKind::kInit && wait.sequence == 1;
         });
}

}  // namespace traintrace
