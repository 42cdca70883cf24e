// Steps that become slower from one on and stay so, and what of them grew.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/step_lengths.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

struct Regression {
  const DeviceProfile* device;
  int64_t step;  // the first slow one, as the job counts, else from 0
  bool counted_by_job;
  int64_t before_ns, after_ns, lost_ns;
  std::vector<StepPart> parts;  // that which grew most first

  bool explained() const {
    return static_cast<double>(parts.front().grew_ns) >=
           kRegressionMost * static_cast<double>(after_ns - before_ns);
  }
};

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

std::optional<Regression> regression_of(const Profile& profile, const DeviceProfile& device) {
  const Timeline& timeline = profile.timelines[device.timeline];
  const DeviceSteps steps = steps_by_launch(timeline, device.device);
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
  if (!are_slower(before, after) ||
      !are_same_work(work.first(cut), work.subspan(cut, after.size()))) {
    return std::nullopt;
  }
  const bool by_job =
      !timeline.step_numbers.empty() && steps.counted_by == StepsCounted::kAsTheJobCounts;
  const int64_t number = steps.number(timeline, cut + 1);
  Regression result = {&device, number, by_job, median_length(before), median_length(after), 0, {}};
  const int64_t changed = steps.starts[cut + 1];
  for (const int64_t length : after) {
    result.lost_ns += length - result.before_ns;
  }
  result.parts = step_parts(timeline, device.device, changed, steps.starts.back(), after.size());
  const std::vector<StepPart> usual =
      step_parts(timeline, device.device, steps.starts[1], changed, before.size());
  for (size_t i = 0; i < usual.size(); ++i) {
    result.parts[i].grew_ns -= usual[i].grew_ns;
  }
  std::stable_sort(result.parts.begin(), result.parts.end(),
                   [](const StepPart& a, const StepPart& b) { return a.grew_ns > b.grew_ns; });
  return device.share(result.lost_ns) >= kWarnShare ? std::optional(result) : std::nullopt;
}

// Those that grew by themselves, where the others are known to wait in collectives.
void blame(const Profile& profile, const std::vector<Regression>& slow, Finding& finding) {
  Ranks own;
  bool told = profile.world_size <= static_cast<int>(profile.timelines.size());
  for (const Regression& each : slow) {
    const StepPart& most = each.parts.front();
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
