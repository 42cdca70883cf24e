// Stages of a pipeline that compute for longer than the others, which wait for them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/same_work.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/peer_waits.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

using PartTimes = std::vector<int64_t>;  // by part of the window

// The same stage of all pipelines of a job.
struct Stage {
  int number = 0;  // from 0
  int of = 0;
  std::vector<const DeviceProfile*> devices = {};
  std::vector<PartTimes> computing = {};  // of each of them
  std::vector<int64_t> totals = {};
  std::vector<int64_t> kernels = {};     // how many
  std::vector<SameWork> same_work = {};  // of each; only of those that compute for longer

  Ranks ranks() const {
    Ranks all;
    for (const DeviceProfile* device : devices) {
      insert(all, device->rank);
    }
    return all;
  }
  int64_t usual_in(size_t part) const {
    std::vector<int64_t> times;
    for (const PartTimes& each : computing) {
      times.push_back(each[part]);
    }
    return upper_median(std::move(times));
  }
};

void add_computing(const Profile& profile, const DeviceProfile& device, Stage& stage) {
  PartTimes times(device.stretches.size());
  int64_t total = 0;
  int64_t kernels = 0;
  for (const GpuWork& work : profile.timelines[device.timeline].work) {
    if (work.device == device.device && work.kind == WorkKind::kCompute) {
      times[part_of_window(device, work.start_ns)] += work.end_ns - work.start_ns;
      total += work.end_ns - work.start_ns;
      ++kernels;
    }
  }
  stage.devices.push_back(&device);
  stage.computing.push_back(std::move(times));
  stage.totals.push_back(total);
  stage.kernels.push_back(kernels);
}

// Empty: not all GPUs are stages of equally many, or their windows have no parts in common.
std::vector<Stage> stages_of(const Profile& profile) {
  std::map<int, Stage> stages;
  for (const DeviceProfile& device : profile.devices) {
    const std::optional<PipelineStage>& stage = profile.stages[device.timeline];
    const bool fits = stage && stage->stages == profile.stages.front()->stages &&
                      device.stretches.size() == profile.devices.front().stretches.size() &&
                      device.stretches.size() >= kStragglerAgain;
    if (!fits) {
      return {};
    }
    add_computing(
        profile, device,
        stages.try_emplace(stage->stage, Stage{stage->stage, stage->stages}).first->second);
  }
  std::vector<Stage> all;
  all.reserve(stages.size());
  for (auto& [number, stage] : stages) {
    all.push_back(std::move(stage));
  }
  return all;
}

// What the median of the other stages has, by `value` of a stage.
template <class Value>
int64_t usual_of_others(const std::vector<Stage>& stages, const Stage& own, Value value) {
  std::vector<int64_t> values;
  for (const Stage& stage : stages) {
    if (stage.number != own.number) {
      values.push_back(value(stage));
    }
  }
  return upper_median(std::move(values));
}

int64_t total_of(const Stage& stage) {
  return upper_median(stage.totals);
}

int64_t usual_total(const std::vector<Stage>& stages, const Stage& own) {
  return usual_of_others(stages, own, total_of);
}

int64_t more_ns(const std::vector<Stage>& stages, const Stage& own) {
  return total_of(own) - usual_total(stages, own);
}

// Of one of its ranks: how much longer than on the other stages its kernels take that all stages
// run.
double longer_at_same_work(const Stage& stage) {
  double longer = 0;
  for (const SameWork& each : stage.same_work) {
    longer += each.longer_ns;
  }
  return std::max(0.0, longer / static_cast<double>(stage.devices.size()));
}

// Else it has other kernels, or more of them, as the model may have it.
bool takes_longer_at_same_work(const std::vector<Stage>& stages, const Stage& stage) {
  return 2 * longer_at_same_work(stage) >= static_cast<double>(more_ns(stages, stage));
}

double times_as_long(const std::vector<Stage>& stages, const Stage& stage) {
  return static_cast<double>(total_of(stage)) /
         static_cast<double>(std::max<int64_t>(1, usual_total(stages, stage)));
}

// All of its ranks compute for longer, in most parts of the window: one of them alone is no matter
// of stages.
bool computes_longer(const std::vector<Stage>& stages, const Stage& stage) {
  const int64_t usual = usual_total(stages, stage);
  const auto is_enough = [&](int64_t total) {
    return 2 * (total - usual) >= total_of(stage) - usual;
  };
  const bool costs =
      total_of(stage) > usual && stage.devices.front()->share(more_ns(stages, stage)) >= kWarnShare;
  if (!costs || !std::all_of(stage.totals.begin(), stage.totals.end(), is_enough)) {
    return false;
  }
  const size_t parts = stage.computing.front().size();
  size_t longer = 0;
  for (size_t part = 0; part < parts; ++part) {
    const int64_t others =
        usual_of_others(stages, stage, [&](const Stage& each) { return each.usual_in(part); });
    longer += stage.usual_in(part) > others ? 1 : 0;
  }
  return static_cast<double>(longer) >= kStragglerHabit * static_cast<double>(parts);
}

// The longer ones of them with the others.
void compare_work(const Profile& profile, std::vector<Stage>& stages,
                  const std::vector<size_t>& longer) {
  const std::vector<std::vector<int64_t>> waited = waited_until(profile);
  std::vector<std::vector<KernelRuns>> runs;
  std::vector<KernelRuns> together;
  for (const Stage& stage : stages) {
    std::vector<KernelRuns>& of_stage = runs.emplace_back();
    for (const DeviceProfile* const device : stage.devices) {
      of_stage.push_back(kernel_runs(profile, *device, waited[device->timeline]));
    }
    together.push_back(runs_together(of_stage));
  }
  for (const size_t index : longer) {
    std::vector<const KernelRuns*> others;
    for (size_t other = 0; other < stages.size(); ++other) {
      if (other != index) {
        others.push_back(&together[other]);
      }
    }
    for (const KernelRuns& own : runs[index]) {
      stages[index].same_work.push_back(
          same_work(own, others, stages[index].devices.front()->stretches.size()));
    }
  }
}

// So much longer than models have it, or the same kernels take longer, which no model has.
bool is_straggler(const std::vector<Stage>& stages, const Stage& stage) {
  return times_as_long(stages, stage) >= kStageLonger ||
         (std::all_of(stage.same_work.begin(), stage.same_work.end(),
                      [](const SameWork& each) { return each.is_longer(); }) &&
          stage.devices.front()->share(std::llround(longer_at_same_work(stage))) >= kWarnShare);
}

int64_t kernels_of(const Stage& stage) {
  return upper_median(stage.kernels);
}

// With the speed at which the others would have been done.
void add_slower(const std::vector<Stage>& stages, const Stage& stage, Finding& finding) {
  const bool at_same_work = takes_longer_at_same_work(stages, stage);
  for (size_t i = 0; i < stage.devices.size(); ++i) {
    for (size_t part = 0; part < stage.computing[i].size(); ++part) {
      if (at_same_work) {
        finding.slower.push_back(
            {stage.devices[i]->index, part, stage.same_work[i].share_of_usual()});
        continue;
      }
      const int64_t own = stage.computing[i][part];
      const int64_t others =
          usual_of_others(stages, stage, [&](const Stage& each) { return each.usual_in(part); });
      if (own > others) {
        finding.slower.push_back({stage.devices[i]->index, part,
                                  static_cast<double>(others) / static_cast<double>(own)});
      }
    }
  }
}

std::string stages_title(const std::vector<Stage>& stages,
                         const std::vector<const Stage*>& longer) {
  const Stage& worst = *longer.front();
  const DeviceProfile& device = *worst.devices.front();
  return fmt::format(
      "{} of the pipeline: stage {} of {} computes {:.2f} times as long as the usual stage ({} "
      "more), and the others wait for it",
      ranks_text(worst.ranks()) +
          (worst.devices.size() == 1 ? " is the slowest" : " are the slowest"),
      worst.number + 1, worst.of, times_as_long(stages, worst),
      share_text(device, more_ns(stages, worst)));
}

std::string stage_text(const Stage& stage) {
  return fmt::format("stage {} ({}): {} of computing in {} kernels", stage.number + 1,
                     ranks_text(stage.ranks()), ms_text(total_of(stage)), kernels_of(stage));
}

}  // namespace

std::vector<Finding> find_straggler_stages(const Profile& profile) {
  std::vector<Stage> stages = stages_of(profile);
  if (stages.size() < 2) {
    return {};
  }
  std::vector<size_t> suspects;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (computes_longer(stages, stages[i])) {
      suspects.push_back(i);
    }
  }
  if (suspects.empty()) {
    return {};
  }
  compare_work(profile, stages, suspects);
  std::vector<const Stage*> longer;
  for (const size_t suspect : suspects) {
    if (is_straggler(stages, stages[suspect])) {
      longer.push_back(&stages[suspect]);
    }
  }
  if (longer.empty() || 2 * longer.size() > stages.size()) {
    return {};
  }
  std::stable_sort(longer.begin(), longer.end(),
                   [](const Stage* a, const Stage* b) { return total_of(*a) > total_of(*b); });
  Finding finding;
  finding.code = "latency.straggler";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.certainty = Certainty::kLikely;
  for (const Stage* const each : longer) {
    for (const Rank rank : each->ranks()) {
      insert(finding.culprits, rank);
    }
    add_slower(stages, *each, finding);
  }
  for (const Stage& stage : stages) {
    for (const Rank rank : stage.ranks()) {
      if (!contains(finding.culprits, rank)) {
        insert(finding.victims, rank);
      }
    }
    finding.evidence.push_back(stage_text(stage));
  }
  const Stage& worst = *longer.front();
  finding.title = stages_title(stages, longer);
  finding.values = {
      {"late_ns", more_ns(stages, worst)}, {"stage", worst.number + 1}, {"stage_count", worst.of}};
  const double at_same_work = longer_at_same_work(worst);
  finding.evidence.push_back(
      fmt::format("stage {}: {} of that in kernels that all stages run, with the same grids",
                  worst.number + 1, ms_text(std::llround(at_same_work))));
  finding.advice =
      takes_longer_at_same_work(stages, worst)
          ? "the same kernels take longer there: compare the sizes of their data, and clocks, "
            "power and temperature of these GPUs (nvidia-smi -q)"
          : "give that stage fewer layers (the embedding, the head and the loss count "
            "too); it may be meant";
  return {finding};
}

}  // namespace traintrace
