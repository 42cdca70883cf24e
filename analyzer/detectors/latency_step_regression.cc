// Steps that become slower from one on and stay so, and what of them grew.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

// On the GPU's time.
struct DeviceSteps {
  std::vector<int64_t> starts;
  std::vector<int64_t> work;  // pieces in each
};

struct Part {
  std::string name;
  int64_t grew_ns;  // per step
  bool own;         // of this rank, and no waiting for others
};

struct Regression {
  const DeviceProfile* device;
  int64_t step;  // the first slow one, as the job counts, else from 0
  bool counted_by_job;
  int64_t before_ns, after_ns, lost_ns;
  std::vector<Part> parts;  // that which grew most first

  bool explained() const {
    return static_cast<double>(parts.front().grew_ns) >=
           kRegressionMost * static_cast<double>(after_ns - before_ns);
  }
};

int64_t median(std::span<const int64_t> values) {
  std::vector<int64_t> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

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
  const bool whole = std::find(steps.work.begin(), steps.work.end(), 0) == steps.work.end();
  return whole && std::is_sorted(steps.starts.begin(), steps.starts.end()) ? steps : DeviceSteps{};
}

DeviceSteps steps_of(const Timeline& timeline, int device) {
  if (timeline.step_starts.size() > 2 * kRegressionSide + 1) {
    return marked_steps(timeline, device);
  }
  const std::optional<StepPeriod> period =
      timeline.step_starts.empty() ? find_step_period(timeline) : std::nullopt;
  if (!period || period->device != device) {
    return {};
  }
  return {period->starts,
          std::vector<int64_t>(period->starts.size(), static_cast<int64_t>(period->work))};
}

// Where the lengths are best cut in two; 0: they are too few.
size_t best_cut(std::span<const int64_t> lengths) {
  double total = 0;
  for (const int64_t length : lengths) {
    total += static_cast<double>(length);
  }
  double before = 0;
  double best = -1;
  size_t cut = 0;
  for (size_t i = 1; i + kRegressionSide <= lengths.size(); ++i) {
    before += static_cast<double>(lengths[i - 1]);
    const auto left = static_cast<double>(i);
    const auto right = static_cast<double>(lengths.size() - i);
    const double apart = (total - before) / right - before / left;
    const double score = apart * apart * left * right;
    if (i >= kRegressionSide && score > best) {
      best = score;
      cut = i;
    }
  }
  return cut;
}

bool is_slower(std::span<const int64_t> before, std::span<const int64_t> after) {
  const auto usual = static_cast<double>(median(before));
  const auto slow = static_cast<double>(median(after));
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

bool is_same_work(std::span<const int64_t> before, std::span<const int64_t> after) {
  const auto usual = static_cast<double>(median(before));
  return std::abs(static_cast<double>(median(after)) - usual) <= kSameStepWork * usual;
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

std::vector<Part> parts_of(const Timeline& timeline, int device, int64_t begin, int64_t end,
                           size_t steps) {
  const std::vector<GpuWork> work = work_between(timeline, device, begin, end);
  const TimePartition times = partition_of(work);
  const IdleTimes idle = idle_by_cause(timeline, work);
  std::vector<Part> parts = {{"computing", times.compute_ns, true},
                             {"communication", times.exposed_communication_ns, false},
                             {"copies", times.exposed_memory_ns, true}};
  for (size_t i = 0; i < kIdleCauses; ++i) {
    // Ordered by who is the cause: up to these the host of this rank.
    const auto cause = static_cast<IdleCause>(i);
    const bool own = cause <= IdleCause::kLaunchLatency && cause != IdleCause::kHostPeerWait;
    parts.push_back({fmt::format("idle time ({})", kIdleCauseNames[i]), idle[i], own});
  }
  for (Part& part : parts) {
    part.grew_ns /= static_cast<int64_t>(steps);
  }
  return parts;
}

std::optional<Regression> regression_of(const Profile& profile, const DeviceProfile& device) {
  const Timeline& timeline = profile.timelines[device.timeline];
  const DeviceSteps steps = steps_of(timeline, device.device);
  std::vector<int64_t> lengths;
  for (size_t i = 2; i < steps.starts.size(); ++i) {
    lengths.push_back(steps.starts[i] - steps.starts[i - 1]);
  }
  const size_t cut = best_cut(lengths);
  if (cut == 0) {
    return std::nullopt;
  }
  const auto before = std::span(lengths).first(cut);
  const auto after = std::span(lengths).subspan(cut);
  const auto work = std::span(steps.work).subspan(1);
  if (!is_slower(before, after) ||
      !is_same_work(work.first(cut), work.subspan(cut, after.size()))) {
    return std::nullopt;
  }
  const bool by_job =
      !timeline.step_numbers.empty() && steps.starts.size() == timeline.step_starts.size();
  const int64_t number = by_job ? step_number(timeline, cut + 1) : static_cast<int64_t>(cut + 1);
  Regression result = {&device, number, by_job, median(before), median(after), 0, {}};
  const int64_t changed = steps.starts[cut + 1];
  for (const int64_t length : after) {
    result.lost_ns += length - result.before_ns;
  }
  result.parts = parts_of(timeline, device.device, changed, steps.starts.back(), after.size());
  const std::vector<Part> usual =
      parts_of(timeline, device.device, steps.starts[1], changed, before.size());
  for (size_t i = 0; i < usual.size(); ++i) {
    result.parts[i].grew_ns -= usual[i].grew_ns;
  }
  std::stable_sort(result.parts.begin(), result.parts.end(),
                   [](const Part& a, const Part& b) { return a.grew_ns > b.grew_ns; });
  return device.share(result.lost_ns) >= kWarnShare ? std::optional(result) : std::nullopt;
}

// Those that grew by themselves, where the others are known to wait in collectives.
void blame(const Profile& profile, const std::vector<Regression>& slow, Finding& finding) {
  Ranks own;
  bool told = profile.world_size <= static_cast<int>(profile.timelines.size());
  for (const Regression& each : slow) {
    const Part& most = each.parts.front();
    insert(most.own ? own : finding.victims, each.device->rank);
    told = told && each.explained() && (most.own || most.name == "communication");
  }
  if (told && (finding.victims.empty() ? profile.timelines.size() == 1 : !own.empty())) {
    finding.culprits = own;
  } else {
    for (const Rank rank : own) {
      insert(finding.victims, rank);
    }
  }
}

std::string text_of(const Regression& slow) {
  return slow.explained() ? fmt::format("{} grew by {} per step", slow.parts.front().name,
                                        ms_text(slow.parts.front().grew_ns))
                          : "no part of them explains it";
}

}  // namespace

std::vector<Finding> find_step_regression(const Profile& profile) {
  std::vector<Regression> slow;
  for (const DeviceProfile& device : profile.devices) {
    if (std::optional<Regression> found = regression_of(profile, device)) {
      slow.push_back(std::move(*found));
    }
  }
  if (slow.empty()) {
    return {};
  }
  std::stable_sort(slow.begin(), slow.end(), [](const Regression& a, const Regression& b) {
    return a.parts.front().own && !b.parts.front().own;
  });
  Finding finding;
  finding.code = "latency.step-regression";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.certainty = Certainty::kLikely;
  blame(profile, slow, finding);
  const Regression& first = slow.front();
  finding.title = fmt::format("steps take {} from step {} on, and {} before: {} on rank {}",
                              ms_text(first.after_ns), first.step, ms_text(first.before_ns),
                              text_of(first), first.device->rank.value);
  finding.values = {{"step", first.step},
                    {"before_ns", first.before_ns},
                    {"after_ns", first.after_ns},
                    {"slower_ns", first.lost_ns}};
  for (const Regression& each : slow) {
    finding.evidence.push_back(
        fmt::format("rank {}: {} instead of {} from step {}{} on: {}", each.device->rank.value,
                    ms_text(each.after_ns), ms_text(each.before_ns), each.step,
                    each.counted_by_job ? "" : " (the first is 0)", text_of(each)));
  }
  finding.advice = "compare what the job does there with what it did before: `report --by=step`";
  return {finding};
}

}  // namespace traintrace
