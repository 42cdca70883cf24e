#include "analyzer/model/waits.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "analyzer/judge/frontier.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/conflicts.h"
#include "analyzer/model/crossed_streams.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/ending.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/hangs.h"
#include "analyzer/model/idle_host.h"
#include "analyzer/model/message_order.h"
#include "analyzer/model/messages.h"
#include "analyzer/model/open_calls.h"
#include "analyzer/model/order_waits.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/run.h"
#include "analyzer/model/stream_waits.h"

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

// Broadcast, reduce and the like: who only sends may be done long ago.  It waits for certain if it
// is blocked, or has entered a later operation in which everybody needs everybody.
bool must_wait(const Run& run, const Member& member, const Waiter& waiter, uint64_t sequence) {
  const CommunicatorText& text = text_of(run, member);
  const ProcessTrace& trace = run.processes[member.process];
  const OperationText* operation = collective_at(text, sequence);
  const Direction direction =
      operation == nullptr ? Direction::kAllToAll : direction_of(call_name(trace, operation->call));
  if (direction == Direction::kAllToAll || waiter.blocked || waiter.unfinished) {
    return true;
  }
  const bool is_root = member.local_rank == operation->peer && member.local_rank >= 0;
  if (direction == Direction::kFromRoot ? !is_root : is_root) {
    return true;
  }
  return std::any_of(text.recent.begin(), text.recent.end(), [&](const OperationText& later) {
    return later.collective && later.sequence > sequence &&
           direction_of(call_name(trace, later.call)) == Direction::kAllToAll;
  });
}

struct Reached {
  uint64_t sequence = 0;
  TimeNs last = 0;  // when it entered that, or later
};

// Until `time`; 0: until the end.
Reached reached_until(const Run& run, const Member& member, TimeNs time) {
  const CommunicatorText& text = text_of(run, member);
  const ProcessTrace& trace = run.processes[member.process];
  Reached reached{sequence_reached(trace, text), last_move(trace, text)};
  const OperationText* operation = collective_at(text, reached.sequence);
  while (time != 0 && operation != nullptr && operation->enter > time) {
    operation = collective_at(text, --reached.sequence);
    reached.last = operation == nullptr ? 0 : operation->enter;
  }
  return reached;
}

// Dumps do not say where a host is, but that no GPU of the members that are there is through with
// it.
bool none_is_through(const Run& run, const Communicator& communicator, const Wait& wait) {
  return wait.waiters.size() == communicator.members.size() &&
         std::all_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
           return waiter.unfinished && is_flight_dump(run.processes[waiter.process]);
         });
}

// A process takes all its ranks along when it ends: beside one that never came, those that had
// entered are gone too.
void add_dead_beside(const Run& run, const Communicator& communicator, Wait& wait) {
  std::vector<Awaited> beside;
  for (const Waiter& waiter : wait.waiters) {
    const bool one_never_came =
        std::any_of(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
          const Member* member = member_of(communicator, awaited.rank);
          return !awaited.entered && member != nullptr && member->process == waiter.process;
        });
    if (one_never_came && ended_early(run, *state_of(run, waiter.rank)) &&
        gave_up(run, *member_of(communicator, waiter.rank)) == 0) {
      beside.push_back({waiter.rank, true, waiter.since});
    }
  }
  wait.awaited.insert(wait.awaited.end(), beside.begin(), beside.end());
  std::sort(wait.awaited.begin(), wait.awaited.end(),
            [](const Awaited& a, const Awaited& b) { return a.rank < b.rank; });
}

// The first collective that somebody has entered and somebody has not; where everybody has come
// equally far, the last one, for members that died in it.
void add_collective_wait(const Run& run, size_t index, std::vector<Wait>& waits) {
  const Communicator& communicator = run.communicators[index];
  std::vector<uint64_t> reached;
  std::vector<TimeNs> moved;
  const TimeNs end = first_abort(run, communicator);
  for (const Member& member : communicator.members) {
    const Reached own = reached_until(run, member, end);
    reached.push_back(own.sequence);
    moved.push_back(own.last);
  }
  const auto [least, most] = std::minmax_element(reached.begin(), reached.end());
  if (*most == 0 || communicator.size == 1) {
    return;
  }
  Wait wait;
  wait.communicator = index;
  wait.sequence = *least < *most ? *least + 1 : *most;
  bool certain = false;
  for (size_t i = 0; i < communicator.members.size(); ++i) {
    const Member& member = communicator.members[i];
    const RankState& state = *state_of(run, member.rank);
    if (reached[i] < wait.sequence) {
      wait.awaited.push_back({member.rank, false, moved[i]});
    } else if (*least == *most && ended_early(run, state) && gave_up(run, member) == 0 &&
               is_in(run, member, wait.sequence)) {
      wait.awaited.push_back({member.rank, true, text_of(run, member).last});
    } else if (is_in(run, member, wait.sequence) && !has_left(run, member)) {
      wait.waiters.push_back(waiter_in(run, member, wait.sequence));
      certain = certain || must_wait(run, member, wait.waiters.back(), wait.sequence);
      const OperationText* operation = collective_at(text_of(run, member), wait.sequence);
      if (operation != nullptr && wait.details.enter == 0) {
        wait.details = *operation;
        wait.operation = call_name(run.processes[member.process], operation->call);
      }
    }
  }
  add_dead_beside(run, communicator, wait);
  if (wait.awaited.empty() && static_cast<int>(communicator.members.size()) < communicator.size) {
    // Whoever left no trace may be in it as well: only who is certainly stuck waits for them.
    if (!none_is_through(run, communicator, wait)) {
      std::erase_if(wait.waiters, [](const Waiter& waiter) { return !waiter.blocked; });
    }
    for (const Rank rank : communicator.absent) {
      if (state_of(run, rank) == nullptr) {
        wait.awaited.push_back({rank, false, 0});
      }
    }
  }
  if (certain && !wait.waiters.empty() && !wait.awaited.empty()) {
    waits.push_back(std::move(wait));
  }
}

// Small data is sent ahead: who got through where others have not come yet may wait for them
// further on.
void add_wait_further_on(const Run& run, size_t index, std::vector<Wait>& waits) {
  const Communicator& communicator = run.communicators[index];
  uint64_t least = ~uint64_t{0};
  for (const Member& member : communicator.members) {
    least = std::min(least, sequence_reached(run.processes[member.process], text_of(run, member)));
  }
  std::map<uint64_t, Wait> found;  // by sequence
  for (const Member& member : communicator.members) {
    const ProcessTrace& trace = run.processes[member.process];
    const uint64_t last = sequence_reached(trace, text_of(run, member));
    const OperationText* operation = collective_at(text_of(run, member), last);
    if (operation == nullptr || last <= least + 1 || is_in(run, member, least + 1) ||
        !is_in(run, member, last) || has_left(run, member) || gave_up(run, member) != 0) {
      continue;
    }
    const Waiter waiter = waiter_in(run, member, last);
    if (!is_polling(trace, waiter.until) && !must_wait(run, member, waiter, last)) {
      continue;
    }
    Wait& wait = found[last];
    wait.communicator = index;
    wait.sequence = last;
    wait.details = *operation;
    wait.operation = call_name(trace, operation->call);
    wait.waiters.push_back(waiter);
  }
  for (auto& [sequence, wait] : found) {
    for (const Member& member : communicator.members) {
      const Reached reached = reached_until(run, member, 0);
      if (reached.sequence < sequence) {
        wait.awaited.push_back({member.rank, false, reached.last});
      }
    }
    if (!wait.awaited.empty()) {
      waits.push_back(std::move(wait));
    }
  }
}

// Who has not come to where the others wait may be held up in an operation before it, which others
// are through with: by a member that died with its own part undone.
void add_held_up_wait(const Run& run, size_t index, std::vector<Wait>& waits) {
  const Communicator& communicator = run.communicators[index];
  std::map<uint64_t, Wait> found;  // by sequence
  uint64_t most = 0;
  for (const Member& member : communicator.members) {
    most = std::max(most, sequence_reached(run.processes[member.process], text_of(run, member)));
  }
  for (const Member& member : communicator.members) {
    const uint64_t last = sequence_reached(run.processes[member.process], text_of(run, member));
    if (last == 0 || last == most || ended_early(run, *state_of(run, member.rank)) ||
        !is_in(run, member, last) || has_left(run, member)) {
      continue;
    }
    const OperationText* operation = collective_at(text_of(run, member), last);
    if (operation == nullptr) {
      continue;
    }
    Wait& wait = found[last];
    wait.communicator = index;
    wait.sequence = last;
    wait.details = *operation;
    wait.operation = call_name(run.processes[member.process], operation->call);
    wait.waiters.push_back(waiter_in(run, member, last));
  }
  for (auto& [sequence, wait] : found) {
    for (const Member& member : communicator.members) {
      const bool came =
          sequence_reached(run.processes[member.process], text_of(run, member)) >= sequence;
      if (came && ended_early(run, *state_of(run, member.rank)) && is_in(run, member, sequence)) {
        wait.awaited.push_back({member.rank, true, text_of(run, member).last});
      }
    }
    if (!wait.awaited.empty()) {
      waits.push_back(std::move(wait));
    }
  }
}

// Sends and receives whose other side never came.
void add_peer_waits(const Run& run, size_t index, std::vector<Wait>& waits) {
  const Communicator& communicator = run.communicators[index];
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    const ProcessTrace& trace = run.processes[member.process];
    const auto open = open_group(trace, text);
    for (const OperationText& operation : text.recent) {
      constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
      if (operation.collective || (operation.flags & kNot) != 0 || finished(trace, operation) ||
          has_left(run, member) || operation.peer == member.local_rank ||
          operation.sequence == 0 ||  // of imported data: how many there were is not known
          (open && operation.index >= open->first->index)) {
        continue;
      }
      const Member* peer = member_at(communicator, operation.peer);
      Waiter own = waiter_of(run, member, operation.enter, operation.stack);
      own.unfinished = certainly_unfinished(gpu_state(trace, operation));
      const bool may_be_done =
          !operation.receive && !own.blocked && !own.unfinished && is_eager(operation);
      if (peer == nullptr || may_be_done || member.local_rank < 0 ||
          has_posted(run, *peer, !operation.receive, member.local_rank, operation.sequence)) {
        continue;
      }
      Wait wait;
      wait.kind = operation.receive ? WaitKind::kReceive : WaitKind::kSend;
      wait.communicator = index;
      wait.sequence = operation.sequence;
      wait.operation = call_name(trace, operation.call);
      wait.details = operation;
      wait.waiters = {own};
      const TimeNs moved = last_move(run.processes[peer->process], text_of(run, *peer));
      wait.awaited = {{peer->rank, false, moved}};
      waits.push_back(std::move(wait));
      break;  // the first of them: later ones wait behind it
    }
  }
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
    add_held_up_wait(run, i, graph.waits);
    add_collective_wait(run, i, graph.waits);
    add_wait_further_on(run, i, graph.waits);
    add_peer_waits(run, i, graph.waits);
  }
  add_conflict_waits(run, graph.waits);
  add_message_waits(run, graph.waits);
  add_waits_behind_messages(run, graph.waits);
  add_stream_waits(run, graph.waits);
  add_crossed_waits(run, graph.waits);
  add_order_waits(run, graph.waits);
  graph.hangs = find_hangs(run, graph.waits);
  return graph;
}

}  // namespace traintrace
