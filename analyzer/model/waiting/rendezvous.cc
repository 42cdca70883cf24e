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

bool is_in_gloo(const ThreadNow& thread) {
  return std::any_of(thread.native.begin(), thread.native.end(), [](const FrameNow& frame) {
    return frame.function.starts_with("gloo::") ||
           frame.function.starts_with("c10d::ProcessGroupGloo");
  });
}

bool waits_for_peers(const ThreadNow& thread) {
  return thread.waiting == Waiting::kStore || is_in_gloo(thread);
}

// In a function of torch.distributed that has called nothing of NCCL: it is another backend's.
bool is_in_host_collective(const ProcessTrace& trace, const SampledPlace& place) {
  const auto stack = trace.stacks.find(place.stack);
  return stack != trace.stacks.end() && !stack->second.python.empty() &&
         stack->second.python.front().file.ends_with("torch/distributed/distributed_c10d.py");
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
  if (!waits_for_peers(*thread) && (thread->ran || thread->waiting == Waiting::kRuns)) {
    return false;
  }
  (waits_for_peers(*thread) ? rendezvous.waiting : rendezvous.elsewhere).push_back(state.rank);
  return true;
}

}  // namespace

const char* host_group_of(const ThreadNow& thread) {
  return is_in_gloo(thread) ? "gloo" : "the store";
}

std::optional<Rendezvous> stuck_host_group(const Run& run) {
  if (run.communicators.empty() || !run.waits.waits.empty() || !run.missing.empty()) {
    return std::nullopt;
  }
  Rendezvous group;
  for (const RankState& state : run.ranks) {
    if (!add_rank(run, state, group)) {
      return std::nullopt;
    }
    const ThreadNow* const thread = working_thread(run, state);
    if (thread != nullptr &&
        (thread->waiting == Waiting::kNccl || thread->waiting == Waiting::kCuda)) {
      return std::nullopt;
    }
  }
  const bool parted = !group.waiting.empty() && !group.elsewhere.empty() && group.gone.empty();
  return parted ? std::optional(group) : std::nullopt;
}

std::optional<Rendezvous> sampled_host_group(const Run& run) {
  if (run.communicators.empty() || !run.waits.waits.empty() || !run.missing.empty()) {
    return std::nullopt;
  }
  Rendezvous group;
  for (const RankState& state : run.ranks) {
    const TimeNs silent = silence_of(run, state);
    if (state.ending == Ending::kExited || working_thread(run, state) != nullptr ||
        silent < run.hang_after || !state.sampled ||
        elapsed(state.sampled->first, state.last_seen) < run.hang_after) {
      return std::nullopt;
    }
    group.silent = group.silent == 0 ? silent : std::min(group.silent, silent);
    (is_in_host_collective(trace_of(run, state), *state.sampled) ? group.waiting : group.elsewhere)
        .push_back(state.rank);
  }
  const bool parted = !group.waiting.empty() && !group.elsewhere.empty();
  return parted ? std::optional(group) : std::nullopt;
}

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
