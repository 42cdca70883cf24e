#include "analyzer/model/host_stuck.h"

#include <algorithm>

#include "analyzer/model/activity.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/threads_now.h"

namespace traintrace {
namespace {

bool is_stuck(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  const ThreadNow* const thread =
      state == nullptr ? nullptr : working_thread(trace_of(run, *state));
  if (thread == nullptr || thread->waiting == Waiting::kNccl || thread->waiting == Waiting::kCuda) {
    return false;
  }
  const std::optional<Activity> activity = activity_of(run, *state);
  const bool silent =
      !activity || (!activity->open && elapsed(activity->time, state->last_seen) >= run.hang_after);
  return silent && (thread->steady || thread->waiting == Waiting::kRuns);
}

}  // namespace

bool is_stuck_on_host(const Run& run, const Hang& hang) {
  return hang.fate == Fate::kAlive && hang.divergences.empty() &&
         std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return is_stuck(run, rank); });
}

}  // namespace traintrace
