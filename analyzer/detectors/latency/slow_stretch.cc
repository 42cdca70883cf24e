// Steps that take longer for a while, with the same work, and then as long as before.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/step_lengths.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

// Steps from `first` up to `end`, as places in the lengths.
struct StepRange {
  size_t first = 0, end = 0;
  size_t count() const { return end - first; }
};

struct SlowWhile {
  const DeviceProfile* device;
  StepRange range;  // in the lengths
  int64_t first_step, last_step;
  int64_t usual_ns, slow_ns, lost_ns;
  std::vector<StepPart> parts;  // that which grew most first
  bool at_first;                // no step before them is known to have been faster
  bool same_kernels;            // as in the other steps

  bool explained() const {
    return static_cast<double>(parts.front().grew_ns) >=
           kRegressionMost * static_cast<double>(slow_ns - usual_ns);
  }
};

// Those in a row that differ most from the others; empty: none does, or they are too many.
StepRange most_apart(std::span<const int64_t> lengths) {
  constexpr size_t kMostSteps = 4096;  // each pair is looked at
  const size_t count = lengths.size();
  if (count > kMostSteps) {
    return {};
  }
  std::vector<double> sums = {0};
  for (const int64_t length : lengths) {
    sums.push_back(sums.back() + static_cast<double>(length));
  }
  StepRange best;
  double best_score = 0;
  for (size_t first = 0; first + kRegressionSide < count; ++first) {
    for (size_t end = first + kRegressionSide; end < count; ++end) {
      const auto within = static_cast<double>(end - first);
      const auto others = static_cast<double>(count - (end - first));
      const double sum = sums[end] - sums[first];
      const double apart = sum / within - (sums.back() - sum) / others;
      const double score = apart > 0 ? apart * apart * within * others : 0;
      if (score > best_score && count - (end - first) >= kRegressionSide) {
        best_score = score;
        best = {first, end};
      }
    }
  }
  return best;
}

std::vector<int64_t> inside(const std::vector<int64_t>& values, const StepRange& range) {
  return {values.begin() + static_cast<ptrdiff_t>(range.first),
          values.begin() + static_cast<ptrdiff_t>(range.end)};
}

std::vector<int64_t> outside(const std::vector<int64_t>& values, const StepRange& range) {
  std::vector<int64_t> result(values.begin(), values.begin() + static_cast<ptrdiff_t>(range.first));
  result.insert(result.end(), values.begin() + static_cast<ptrdiff_t>(range.end), values.end());
  return result;
}

// Kernels by name and grid, in the slow steps and in the others.
struct KernelTimes {
  int64_t ns[2] = {};
  size_t runs[2] = {};
};
using KernelKey = std::pair<uint32_t, uint16_t>;

std::map<KernelKey, KernelTimes> kernels_in_steps(const Timeline& timeline, int device,
                                                  const std::vector<int64_t>& starts,
                                                  const StepRange& range) {
  std::map<KernelKey, KernelTimes> kernels;
  for (const GpuWork& work : timeline.work) {
    if (work.device != device || work.kind != WorkKind::kCompute ||
        work.start_ns < starts.front() || work.start_ns >= starts.back()) {
      continue;
    }
    const bool slow = work.start_ns >= starts[range.first] && work.start_ns < starts[range.end];
    KernelTimes& times = kernels[{work.name, work.shape}];
    times.ns[slow ? 1 : 0] += work.end_ns - work.start_ns;
    ++times.runs[slow ? 1 : 0];
  }
  return kernels;
}

// The same kernels with the same grids in each step: longer sequences are other work.
bool are_same_kernels(const std::map<KernelKey, KernelTimes>& kernels, size_t slow, size_t usual) {
  double differ = 0;
  double all = 0;
  for (const auto& [key, times] : kernels) {
    const double in_slow = static_cast<double>(times.runs[1]) / static_cast<double>(slow);
    const double in_usual = static_cast<double>(times.runs[0]) / static_cast<double>(usual);
    differ += std::abs(in_slow - in_usual);
    all += in_usual;
  }
  return differ <= kSameStepWork * all;
}

// "the same kernels take 3.0 times as long, most of it in gemm (1.2 ms instead of 0.4 ms)"
std::string kernels_text(const Timeline& timeline,
                         const std::map<KernelKey, KernelTimes>& kernels) {
  double slow_ns = 0;
  double usual_ns = 0;
  const std::pair<const KernelKey, KernelTimes>* most = nullptr;
  double most_grew = 0;
  for (const auto& each : kernels) {
    const KernelTimes& times = each.second;
    if (times.runs[0] == 0 || times.runs[1] == 0) {
      continue;
    }
    const auto runs = static_cast<double>(times.runs[1]);
    const double before = static_cast<double>(times.ns[0]) / static_cast<double>(times.runs[0]);
    slow_ns += static_cast<double>(times.ns[1]);
    usual_ns += before * runs;
    const double grew = static_cast<double>(times.ns[1]) - before * runs;
    if (grew > most_grew) {
      most_grew = grew;
      most = &each;
    }
  }
  if (most == nullptr || slow_ns < kRegressionSlower * usual_ns) {
    return "";
  }
  const KernelTimes& times = most->second;
  return fmt::format(
      "the same kernels with the same grids take {:.1f} times as long there, most of it in {} "
      "({:.1f} us each instead of {:.1f} us)",
      slow_ns / usual_ns, timeline.names[most->first.first],
      static_cast<double>(times.ns[1]) / static_cast<double>(times.runs[1]) / 1e3,
      static_cast<double>(times.ns[0]) / static_cast<double>(times.runs[0]) / 1e3);
}

// Of the parts of all steps within, per step.
std::vector<StepPart> step_growth(const Timeline& timeline, int device,
                                  const std::vector<int64_t>& starts, const StepRange& range) {
  const size_t others = starts.size() - 1 - range.count();
  std::vector<StepPart> grown =
      step_parts(timeline, device, starts[range.first], starts[range.end], range.count());
  const std::vector<StepPart> all = step_parts(timeline, device, starts.front(), starts.back(), 1);
  for (size_t i = 0; i < grown.size(); ++i) {
    const int64_t usual = all[i].grew_ns - grown[i].grew_ns * static_cast<int64_t>(range.count());
    grown[i].grew_ns -= usual / static_cast<int64_t>(others);
  }
  std::stable_sort(grown.begin(), grown.end(),
                   [](const StepPart& a, const StepPart& b) { return a.grew_ns > b.grew_ns; });
  return grown;
}

// The first step of all warms up.
struct StepLengths {
  DeviceSteps steps;
  std::vector<int64_t> starts;   // from the second on
  std::vector<int64_t> lengths;  // of these
};

std::optional<StepLengths> lengths_of(const Timeline& timeline, int device) {
  StepLengths all = {steps_by_launch(timeline, device), {}, {}};
  if (all.steps.starts.size() < 2 * kRegressionSide + 2) {
    return std::nullopt;
  }
  all.starts.assign(all.steps.starts.begin() + 1, all.steps.starts.end());
  for (size_t i = 1; i < all.starts.size(); ++i) {
    all.lengths.push_back(all.starts[i] - all.starts[i - 1]);
  }
  return all;
}

SlowWhile slow_in(const Timeline& timeline, const DeviceProfile& device, const StepLengths& all,
                  const StepRange& range) {
  const std::vector<int64_t> usual = outside(all.lengths, range);
  const std::vector<int64_t> slow = inside(all.lengths, range);
  SlowWhile result = {&device,
                      range,
                      all.steps.number(timeline, range.first + 1),
                      all.steps.number(timeline, range.end),
                      median_length(usual),
                      median_length(slow),
                      0,
                      step_growth(timeline, device.device, all.starts, range),
                      range.first < kRegressionSide,
                      are_same_kernels(kernels_in_steps(timeline, device.device, all.starts, range),
                                       slow.size(), usual.size())};
  result.lost_ns = std::accumulate(slow.begin(), slow.end(), int64_t{0}) -
                   result.usual_ns * static_cast<int64_t>(slow.size());
  return result;
}

std::optional<SlowWhile> slow_while(const Profile& profile, const DeviceProfile& device) {
  const Timeline& timeline = profile.timelines[device.timeline];
  const std::optional<StepLengths> all = lengths_of(timeline, device.device);
  const StepRange range = all ? most_apart(all->lengths) : StepRange{};
  if (range.count() == 0) {
    return std::nullopt;
  }
  const std::vector<int64_t> work(all->steps.work.begin() + 1, all->steps.work.end() - 1);
  if (!are_slower(outside(all->lengths, range), inside(all->lengths, range)) ||
      !are_same_work(outside(work, range), inside(work, range))) {
    return std::nullopt;
  }
  SlowWhile result = slow_in(timeline, device, *all, range);
  const bool costs = device.share(result.lost_ns) >= kWarnShare;
  return costs && result.same_kernels ? std::optional(std::move(result)) : std::nullopt;
}

// Of a GPU whose steps are not slow with the same work: what it did longer itself in those in which
// another one waited longer, if that is most of the waiting.
std::optional<SlowWhile> longer_meanwhile(const Profile& profile, const DeviceProfile& device,
                                          const SlowWhile& waiting) {
  const Timeline& timeline = profile.timelines[device.timeline];
  const std::optional<StepLengths> all = lengths_of(timeline, device.device);
  if (!all) {
    return std::nullopt;
  }
  const int64_t first = waiting.first_step - all->steps.number(timeline, 1);
  const int64_t end = first + static_cast<int64_t>(waiting.range.count());
  if (first < 0 || end > static_cast<int64_t>(all->lengths.size()) ||
      waiting.range.count() == all->lengths.size()) {
    return std::nullopt;
  }
  SlowWhile result =
      slow_in(timeline, device, *all, {static_cast<size_t>(first), static_cast<size_t>(end)});
  const StepPart& most = result.parts.front();
  const bool is_reason =
      most.own && static_cast<double>(most.grew_ns) >=
                      kRegressionMost * static_cast<double>(waiting.slow_ns - waiting.usual_ns);
  return is_reason ? std::optional(std::move(result)) : std::nullopt;
}

// Where those that are slow with the same work only wait: the GPUs that they wait for, which had
// other work then, or were slow in few of these steps.
void add_awaited(const Profile& profile, std::vector<SlowWhile>& all) {
  const bool some_own = std::any_of(all.begin(), all.end(),
                                    [](const SlowWhile& each) { return each.parts.front().own; });
  if (all.empty() || some_own || all.front().parts.front().name != "communication") {
    return;
  }
  const SlowWhile waiting = all.front();
  for (const DeviceProfile& device : profile.devices) {
    const bool is_slow = std::any_of(all.begin(), all.end(),
                                     [&](const SlowWhile& each) { return each.device == &device; });
    if (std::optional<SlowWhile> found =
            is_slow ? std::nullopt : longer_meanwhile(profile, device, waiting)) {
      all.push_back(std::move(*found));
    }
  }
}

std::string growth_text(const SlowWhile& slow) {
  return slow.explained() ? fmt::format("{} grew by {} per step", slow.parts.front().name,
                                        ms_text(slow.parts.front().grew_ns))
                          : "no part of them explains it";
}

// Those that were slower by themselves, where the others are known to wait for them.
void blame_slow(const Profile& profile, const std::vector<SlowWhile>& all, Finding& finding) {
  bool told = profile.world_size <= static_cast<int>(profile.timelines.size());
  for (const SlowWhile& each : all) {
    const StepPart& most = each.parts.front();
    insert(most.own ? finding.culprits : finding.victims, each.device->rank);
    told = told && each.explained() && (most.own || most.name == "communication");
  }
  const bool some_wait = !finding.victims.empty() && !finding.culprits.empty();
  if (!told || (!some_wait && profile.timelines.size() != 1)) {
    for (const Rank rank : finding.culprits) {
      insert(finding.victims, rank);
    }
    finding.culprits.clear();
  }
}

}  // namespace

std::vector<Finding> find_slow_stretch(const Profile& profile) {
  std::vector<SlowWhile> all;
  for (const DeviceProfile& device : profile.devices) {
    if (std::optional<SlowWhile> found = slow_while(profile, device)) {
      all.push_back(std::move(*found));
    }
  }
  // A job whose steps stay slow has a finding of its own.
  if (all.empty() || !find_step_regression(profile).empty()) {
    return {};
  }
  add_awaited(profile, all);
  std::stable_sort(all.begin(), all.end(), [](const SlowWhile& a, const SlowWhile& b) {
    return a.parts.front().own && !b.parts.front().own;
  });
  Finding finding;
  finding.code = "latency.step-regression";
  finding.severity = catalogue_row(finding.code)->severity;
  blame_slow(profile, all, finding);
  const SlowWhile& first = all.front();
  // What is slow from the start on may be warming up.
  finding.certainty =
      first.explained() && !first.at_first ? Certainty::kLikely : Certainty::kPossible;
  if (finding.certainty == Certainty::kPossible && !finding.culprits.empty()) {
    // Of several those that wait are known; a single one has only itself to wait for.
    (finding.victims.empty() ? finding.victims : finding.sides.emplace_back()) = finding.culprits;
    finding.culprits.clear();
  }
  finding.title =
      fmt::format("steps {} to {} take {}, and the others {}: {} on rank {}", first.first_step,
                  first.last_step, ms_text(first.slow_ns), ms_text(first.usual_ns),
                  growth_text(first), first.device->rank.value);
  finding.values = {{"step", first.first_step},
                    {"last_step", first.last_step},
                    {"before_ns", first.usual_ns},
                    {"after_ns", first.slow_ns},
                    {"slower_ns", first.lost_ns}};
  for (const SlowWhile& each : all) {
    const Timeline& timeline = profile.timelines[each.device->timeline];
    const DeviceSteps steps = steps_by_launch(timeline, each.device->device);
    const std::vector<int64_t> starts(steps.starts.begin() + 1, steps.starts.end());
    finding.evidence.push_back(fmt::format(
        "rank {}: {} instead of {} in steps {} to {}{}: {}{}", each.device->rank.value,
        ms_text(each.slow_ns), ms_text(each.usual_ns), each.first_step, each.last_step,
        timeline.step_numbers.empty() ? " (the first is 0)" : "", growth_text(each),
        each.same_kernels ? "" : ", with other kernels or grids than in the other steps"));
    const std::string kernels =
        kernels_text(timeline, kernels_in_steps(timeline, each.device->device, starts, each.range));
    if (!kernels.empty()) {
      finding.evidence.push_back(fmt::format("rank {}: {}", each.device->rank.value, kernels));
    }
  }
  finding.advice =
      first.same_kernels
          ? "the same work took longer for a while: look at the clocks, the temperature and the "
            "other users of that GPU at that time (`traintrace telemetry`), and at `report "
            "--by=step`"
          : "that rank had more to do for a while: compare its batches there with those of the "
            "others, and look at `report --by=step`";
  return {finding};
}

}  // namespace traintrace
