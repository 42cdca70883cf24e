#include "analyzer/model/waiting/rendezvous.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/threads_now.h"

namespace traintrace {
namespace {

// Since its last call, or since it began.
TimeNs silence_of(const Run& run, const RankState& state) {
  const std::optional<Activity> activity = activity_of(run, state);
  return activity && activity->open
             ? 0
             : elapsed(activity ? activity->time : trace_of(run, state).armed, state.last_seen);
}

// False: it moves, or was not looked at.
bool add_rank(const Run& run, const RankState& state, Rendezvous& rendezvous) {
  if (has_ended(state)) {
    rendezvous.gone.push_back(state.rank);
    return true;
  }
  const ThreadNow* thread = working_thread(run, state);
  const TimeNs silent = silence_of(run, state);
  if (thread == nullptr || !thread->steady || silent < run.hang_after) {
    return false;
  }
  rendezvous.silent = rendezvous.silent == 0 ? silent : std::min(rendezvous.silent, silent);
  // Who starts slowly, reads and computes, is not stuck; in the store others move as well.
  if (thread->waiting != Waiting::kStore && (thread->ran || thread->waiting == Waiting::kRuns)) {
    return false;
  }
  (thread->waiting == Waiting::kStore ? rendezvous.waiting : rendezvous.elsewhere)
      .push_back(state.rank);
  return true;
}

}  // namespace

std::optional<Rendezvous> stuck_rendezvous(const Run& run) {
  if (!run.communicators.empty()) {
    return std::nullopt;
  }
  Rendezvous rendezvous;
  for (const RankState& state : run.ranks) {
    if (!add_rank(run, state, rendezvous)) {
      return std::nullopt;
    }
  }
  for (const Rank rank : run.missing) {
    insert(rendezvous.gone, rank);
  }
  return rendezvous.waiting.empty() ? std::nullopt : std::optional(rendezvous);
}

}  // namespace traintrace
