#include "analyzer/detectors/lost_time/step_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/partition.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

// The host may be far ahead of the GPU: work belongs to the step in which it was launched.
DeviceSteps marked_steps(const Timeline& timeline, int device) {
  std::unordered_map<uint64_t, int64_t> launched;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launched[call.correlation] = call.start_ns;
    }
  }
  const std::vector<int64_t>& marks = timeline.step_starts;
  DeviceSteps steps;
  steps.counted_by = StepsCounted::kAsTheJobCounts;
  steps.starts.assign(marks.size(), std::numeric_limits<int64_t>::max());
  steps.work.assign(marks.size(), 0);
  for (const GpuWork& work : timeline.work) {
    const auto launch = launched.find(work.correlation);
    if (work.device != device || work.kind == WorkKind::kMemory || launch == launched.end()) {
      continue;
    }
    const auto after = std::upper_bound(marks.begin(), marks.end(), launch->second);
    if (after != marks.begin()) {
      const auto step = static_cast<size_t>(after - marks.begin() - 1);
      steps.starts[step] = std::min(steps.starts[step], work.start_ns);
      ++steps.work[step];
    }
  }
  while (!steps.work.empty() && steps.work.back() == 0) {  // those after the last work recorded
    steps.starts.pop_back();
    steps.work.pop_back();
  }
  const bool whole = std::find(steps.work.begin(), steps.work.end(), 0) == steps.work.end();
  return whole && std::is_sorted(steps.starts.begin(), steps.starts.end()) ? steps : DeviceSteps{};
}

// From the start of one step to that of another, with nothing done from there on.
std::vector<GpuWork> work_between(const Timeline& timeline, int device, int64_t begin,
                                  int64_t end) {
  std::vector<GpuWork> result;
  for (const GpuWork& work : timeline.work) {
    if (work.device == device && work.start_ns >= begin && work.start_ns <= end) {
      result.push_back(work);
      result.back().end_ns = std::min(work.end_ns, end);
    }
  }
  return result;
}

}  // namespace

DeviceSteps steps_by_launch(const Timeline& timeline, int device) {
  if (!timeline.step_starts.empty()) {
    DeviceSteps steps = marked_steps(timeline, device);
    const std::vector<int64_t> before = unmarked_steps(timeline, device, steps.starts);
    if (!before.empty()) {  // as much work as in those that repeat it
      steps.work.insert(steps.work.begin(), before.size(), median_length(steps.work));
      steps.starts.insert(steps.starts.begin(), before.begin(), before.end());
      steps.counted_by = StepsCounted::kFromTheFirst;
    }
    return steps.starts.size() > 2 * kRegressionSide + 1 ? steps : DeviceSteps{};
  }
  const std::optional<StepPeriod> period = find_step_period(timeline);
  if (!period || period->device != device) {
    return {};
  }
  return {period->starts,
          std::vector<int64_t>(period->starts.size(), static_cast<int64_t>(period->work))};
}

int64_t median_length(std::span<const int64_t> values) {
  std::vector<int64_t> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

bool are_slower(std::span<const int64_t> before, std::span<const int64_t> after) {
  const auto usual = static_cast<double>(median_length(before));
  const auto slow = static_cast<double>(median_length(after));
  const double middle = (usual + slow) / 2;
  const auto below = std::count_if(before.begin(), before.end(), [&](int64_t length) {
    return static_cast<double>(length) < middle;
  });
  const auto above = std::count_if(after.begin(), after.end(), [&](int64_t length) {
    return static_cast<double>(length) > middle;
  });
  return slow >= kRegressionSlower * usual &&
         static_cast<double>(below) >= kRegressionApart * static_cast<double>(before.size()) &&
         static_cast<double>(above) >= kRegressionApart * static_cast<double>(after.size());
}

bool are_same_work(std::span<const int64_t> before, std::span<const int64_t> after) {
  const auto usual = static_cast<double>(median_length(before));
  return std::abs(static_cast<double>(median_length(after)) - usual) <= kSameStepWork * usual;
}

std::vector<StepPart> step_parts(const Timeline& timeline, int device, int64_t begin, int64_t end,
                                 size_t steps) {
  const std::vector<GpuWork> work = work_between(timeline, device, begin, end);
  const TimePartition times = partition_of(work);
  const IdleTimes idle = idle_by_cause(timeline, work);
  std::vector<StepPart> parts = {{"computing", times.compute_ns, true},
                                 {"communication", times.exposed_communication_ns, false},
                                 {"copies", times.exposed_memory_ns, true}};
  for (size_t i = 0; i < kIdleCauses; ++i) {
    // Ordered by who is the cause: up to these the host of this rank.
    const auto cause = static_cast<IdleCause>(i);
    const bool own = cause <= IdleCause::kLaunchLatency && cause != IdleCause::kHostPeerWait;
    parts.push_back({fmt::format("idle time ({})", kIdleCauseNames[i]), idle[i], own});
  }
  for (StepPart& part : parts) {
    part.grew_ns /= static_cast<int64_t>(steps);
  }
  return parts;
}

}  // namespace traintrace
