#include "analyzer/model/waiting/waits.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/run.h"
#include "analyzer/thresholds.h"

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

// Its end was noted within a moment.  Who had been silent for long before that may have been
// stopped.
TimeNs seen_until(const RankState& state) {
  const Life& life = state.life;
  const bool noted = life.evidence == EndEvidence::kNoted &&
                     elapsed(life.last_seen, life.ended) <= kAliveUncertain;
  return noted ? life.ended : state.last_seen;
}

}  // namespace

Waiter waiter_of(const Run& run, const Member& member, TimeNs since, uint32_t stack) {
  const CommunicatorText& text = text_of(run, member);
  const RankState* state = state_of(run, member.rank);
  Waiter waiter{member.rank, member.process, since, seen_until(*state), stack, false};
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

}  // namespace traintrace
