#include "analyzer/model/waiting/host_stuck.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/threads_now.h"

namespace traintrace {
namespace {

// They serve a library, and hold no lock of the job's.
bool serves_a_library(const ThreadNow& thread) {
  constexpr std::string_view kServing[] = {"NCCL", "NCCL watchdog", "NCCL heartbeat", "NCCL proxy",
                                           "CUDA", "TCPStore",      "traintrace"};
  return std::find(std::begin(kServing), std::end(kServing), thread.role) != std::end(kServing);
}

// Who waits for the GIL wakes up at short intervals only to ask for it.
bool waits_for_a_thread(const ThreadNow& thread) {
  const bool asleep = thread.waiting == Waiting::kLock || thread.waiting == Waiting::kCondition ||
                      thread.waiting == Waiting::kThread;
  return thread.steady && !thread.timed &&
         ((asleep && !thread.ran) || thread.waiting == Waiting::kGil);
}

bool is_stuck(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  const ThreadNow* const thread = state == nullptr ? nullptr : working_thread(run, *state);
  if (thread == nullptr || thread->waiting == Waiting::kNccl || thread->waiting == Waiting::kCuda) {
    return false;
  }
  const std::optional<Activity> activity = activity_of(run, *state);
  const bool silent =
      !activity || (!activity->open && elapsed(activity->time, state->last_seen) >= run.hang_after);
  return silent && (thread->steady || thread->waiting == Waiting::kRuns);
}

}  // namespace

bool cannot_go_on(const ProcessTrace& trace, const ThreadNow& thread) {
  const auto all = [&](const auto& holds) {
    return std::all_of(trace.now.begin(), trace.now.end(), holds);
  };
  const bool has_holder = !all([](const ThreadNow& other) { return !other.holds_gil; });
  return waits_for_a_thread(thread) && (thread.waiting != Waiting::kGil || has_holder) &&
         all([](const ThreadNow& other) {
           return serves_a_library(other) || waits_for_a_thread(other);
         });
}

bool is_stuck_on_host(const Run& run, const Hang& hang) {
  return hang.fate == Fate::kAlive && hang.divergences.empty() &&
         std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return is_stuck(run, rank); });
}

}  // namespace traintrace
