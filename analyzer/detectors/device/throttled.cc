// GPUs whose clock was held down by heat, by the power brake or by a fault of their supply.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/device/held_clocks.h"
#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/detectors/evidence_lines.h"

namespace traintrace {
namespace {

std::string degrees_text(const RankGpu& gpu) {
  const auto hottest = most(*gpu.history, GpuReading::kTemperature, gpu.from, gpu.to);
  return hottest ? fmt::format(", up to {} degrees Celsius", *hottest) : "";
}

std::string evidence_of(const RankGpu& gpu, const HeldClock& held) {
  const auto clock = mean(*gpu.history, GpuReading::kSmClock, gpu.from, gpu.to);
  return fmt::format("{}: {:.0f} % of {} by {}{}; {}{}", ranks_text(gpu.ranks), 100 * held.share,
                     time_text(gpu), held.counted ? "the GPU's own counter" : "samples",
                     clock ? fmt::format(", {:.0f} MHz on average", *clock) : "",
                     gpu_text(*gpu.history), degrees_text(gpu));
}

Finding finding_of(const std::vector<RankGpu>& gpus, const std::vector<HeldClock>& held) {
  Finding finding;
  finding.code = "device.throttled";
  finding.severity = catalogue_row(finding.code)->severity;
  const HeldClock& worst =
      *std::max_element(held.begin(), held.end(),
                        [](const HeldClock& a, const HeldClock& b) { return a.share < b.share; });
  Ranks ranks;
  for (const HeldClock& each : held) {
    const RankGpu& gpu = gpus[each.gpu];
    std::for_each(gpu.ranks.begin(), gpu.ranks.end(), [&](Rank rank) { insert(ranks, rank); });
    if (finding.evidence.size() < kEvidenceLines) {
      finding.evidence.push_back(evidence_of(gpu, each));
    }
    finding.certainty = each.counted ? finding.certainty : Certainty::kLikely;
  }
  finding.sides = {ranks};
  const RankGpu& gpu = gpus[worst.gpu];
  finding.title =
      fmt::format("the clock{} of the GPU{} of {} {} held down by {} for {}{:.0f} % of {}",
                  held.size() == 1 ? "" : "s", held.size() == 1 ? "" : "s", ranks_text(ranks),
                  held.size() == 1 ? "was" : "were", held_by_text(worst.by),
                  held.size() == 1 ? "" : "up to ", 100 * worst.share, time_text(gpu));
  finding.values = {{"held_ns", std::llround(worst.share * static_cast<double>(gpu.to - gpu.from))},
                    {"held_percent", std::llround(100 * worst.share)},
                    {"others_percent", std::llround(100 * worst.others)}};
  return finding;
}

std::string advice_for(HeldBy by) {
  return by == HeldBy::kHeat
             ? "check the cooling of this GPU: fans, airflow, the slot, thermal paste; "
               "drain the node until it is mended"
             : "check the power supply, its cables and the node's power limits; "
               "drain the node until it is mended";
}

}  // namespace

std::vector<Finding> find_throttled(const std::vector<RankGpu>& gpus) {
  std::vector<Finding> findings;
  std::vector<HeldClock> held = held_clocks(gpus);
  for (const HeldBy by : {HeldBy::kHeat, HeldBy::kPowerBrake, HeldBy::kLowPower}) {
    std::vector<HeldClock> of_these;
    std::copy_if(held.begin(), held.end(), std::back_inserter(of_these),
                 [&](const HeldClock& each) { return each.by == by; });
    if (!of_these.empty()) {
      Finding& finding = findings.emplace_back(finding_of(gpus, of_these));
      finding.culprits = finding.sides.front();
      finding.advice = advice_for(by);
    }
  }
  if (const std::vector<HeldClock> alike = held_alike(gpus); !alike.empty()) {
    Finding& finding = findings.emplace_back(finding_of(gpus, alike));
    finding.evidence.push_back("most GPUs alike: no culprit among them");
    finding.advice = alike.front().by == HeldBy::kHeat
                         ? "check the cooling of the room or the rack: inlet temperature, fans"
                         : "check the power supply of the rack: a power brake is a signal from it";
  }
  return findings;
}

}  // namespace traintrace
