#include "analyzer/judge/given_up.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// With a failing status or by abort(), as what is told of a failure ends.
bool ended_itself(const Run& run, const RankState& state) {
  const int ended = trace_of(run, state).wait_status;
  return exited_abnormally(run, state) ||
         (state.ending == Ending::kGone && ended >= 0 &&
          (WIFSIGNALED(ended) ? WTERMSIG(ended) == SIGABRT : WEXITSTATUS(ended) != 0));
}

// It aborted the communicator, polled, or was inside a call that waits.
bool host_waited(const Run& run, const RankState& state, const Wait& wait) {
  const Member* const member = member_of(run.communicators[wait.communicator], state.rank);
  const bool aborted = member != nullptr && (text_of(run, *member).flags & format::kAborted) != 0;
  return aborted || is_polling(trace_of(run, state), known_until(run, state)) ||
         blocked_in_nccl(run, state) != 0 || blocked_in_cuda(run, state) != 0;
}

GivenUp given_up_in(const Run& run, const Wait& wait, const Waiter& waiter) {
  GivenUp one;
  one.wait = wait;
  for (const Awaited& awaited : wait.awaited) {
    const RankState* const other = state_of(run, awaited.rank);
    if (!awaited.entered && other != nullptr && known_until(run, *other) >= waiter.until) {
      const TimeNs start = std::max(waiter.since, awaited.moved);
      one.waited = one.missing.empty() ? elapsed(start, waiter.until)
                                       : std::min(one.waited, elapsed(start, waiter.until));
      insert(one.missing, awaited.rank);
    }
  }
  return one;
}

}  // namespace

std::map<Rank, GivenUp> find_given_up(const Run& run, const std::vector<Wait>& waits) {
  std::map<Rank, GivenUp> longest;
  for (const Wait& wait : waits) {
    for (const Waiter& waiter : wait.waiters) {
      const RankState* const state = state_of(run, waiter.rank);
      if (state == nullptr || !ended_itself(run, *state) || !host_waited(run, *state, wait)) {
        continue;
      }
      GivenUp one = given_up_in(run, wait, waiter);
      if (one.missing.empty() || one.waited < kAliveUncertain) {
        continue;
      }
      const auto [at, is_new] = longest.try_emplace(waiter.rank, one);
      if (!is_new && one.waited > at->second.waited) {
        at->second = std::move(one);
      }
    }
  }
  return longest;
}

}  // namespace traintrace
