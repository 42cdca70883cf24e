#include "analyzer/model/waits.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "analyzer/judge/frontier.h"
#include "analyzer/judge/match_waits.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/conflicts.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/ending.h"
#include "analyzer/model/hangs.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/run.h"

namespace traintrace {
namespace {

// Its host is inside one call, of those that wait for the GPU or for other ranks, since `from` or
// later, for long enough to be stuck.
bool is_blocked(const Run& run, const RankState& state, TimeNs from, TimeNs until) {
  for (const TimeNs since : {blocked_in_nccl(run, state), blocked_in_cuda(run, state)}) {
    if (since != 0 && elapsed(std::max(since, from), until) >= run.hang_after) {
      return true;
    }
  }
  return false;
}

// Creating the communicator: whoever has not begun to, or died while it did, is waited for.
void add_init_wait(const Run& run, size_t index, std::vector<Wait>& waits) {
  const Communicator& communicator = run.communicators[index];
  Wait wait;
  wait.kind = WaitKind::kInit;
  wait.communicator = index;
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    const RankState& state = *state_of(run, member.rank);
    const bool done = text.ready != 0 || (text.flags & format::kInitDone) != 0 ||
                      text.collectives != 0 || text.ended != 0 ||
                      (text.flags & format::kInitFailed) != 0;
    if (done || text.origin == format::kUnknownOrigin) {
      continue;
    }
    if (ended_early(run, state)) {
      wait.awaited.push_back({member.rank, true, text.created});
    } else if (blocked_in_nccl(run, state) != 0 || (text.flags & format::kNonBlocking) != 0) {
      wait.waiters.push_back(waiter_of(run, member, text.created, text.created_stack));
    }
    constexpr const char* kNames[] = {"the creation",  "ncclCommInitRank", "ncclCommInitAll",
                                      "ncclCommSplit", "ncclCommShrink",   "the creation"};
    wait.operation = kNames[std::min<size_t>(text.origin, std::size(kNames) - 1)];
  }
  for (const Rank rank : communicator.absent) {
    wait.awaited.push_back({rank, false, 0});
  }
  std::sort(wait.awaited.begin(), wait.awaited.end(),
            [](const Awaited& a, const Awaited& b) { return a.rank < b.rank; });
  if (!wait.waiters.empty() && !wait.awaited.empty()) {
    waits.push_back(std::move(wait));
  }
}

// Whoever is awaited has issued its part.
bool all_awaited_are_held_up(const Wait& wait) {
  return std::all_of(wait.awaited.begin(), wait.awaited.end(),
                     [](const Awaited& awaited) { return awaited.held_up; });
}

}  // namespace

Waiter waiter_of(const Run& run, const Member& member, TimeNs since, uint32_t stack) {
  const CommunicatorText& text = text_of(run, member);
  const RankState* state = state_of(run, member.rank);
  Waiter waiter{member.rank, member.process, since, state->last_seen, stack, false};
  if ((text.flags & format::kAborted) != 0 && text.ended != 0) {
    waiter.until = std::min(waiter.until, text.ended);
  }
  waiter.blocked = is_blocked(run, *state, since, waiter.until);
  return waiter;
}

bool has_left(const Run& run, const Member& member) {
  const CommunicatorText& text = text_of(run, member);
  return (text.flags & (format::kFinalized | format::kDestroyed)) != 0 &&
         (text.flags & format::kAborted) == 0 &&
         blocked_in_nccl(run, *state_of(run, member.rank)) == 0;
}

// Has it a part in operation `sequence` that is not known to be over?
bool is_in(const Run& run, const Member& member, uint64_t sequence) {
  const OperationText* operation = collective_at(text_of(run, member), sequence);
  if (sequence <= text_of(run, member).finished) {
    return false;
  }
  return operation == nullptr || (!finished(run.processes[member.process], *operation) &&
                                  (operation->flags & format::kEmpty) == 0);
}

Waiter waiter_in(const Run& run, const Member& member, uint64_t sequence) {
  const CommunicatorText& text = text_of(run, member);
  if (const OperationText* operation = collective_at(text, sequence)) {
    Waiter waiter = waiter_of(run, member, operation->enter, operation->stack);
    waiter.unfinished = certainly_unfinished(gpu_state(run.processes[member.process], *operation));
    return waiter;
  }
  // So long ago that it is not kept: at least as long as the oldest that is.
  return waiter_of(run, member, text.recent.empty() ? text.last : text.recent.front().enter, 0);
}

WaitGraph wait_graph(const Run& run) {
  if (knows_order_only(run)) {
    return frontier_graph(run);
  }
  WaitGraph graph;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    add_init_wait(run, i, graph.waits);
  }
  add_match_waits(run, graph.waits);
  std::stable_sort(graph.waits.begin(), graph.waits.end(), [](const Wait& a, const Wait& b) {
    return std::tuple(all_awaited_are_held_up(a), a.communicator) <
           std::tuple(is_held_up(b), b.communicator);
  });
  add_conflict_waits(run, graph.waits);
  add_message_waits(run, graph.waits);
  graph.hangs = find_hangs(run, graph.waits);
  return graph;
}

}  // namespace traintrace
