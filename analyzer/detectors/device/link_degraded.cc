// Links of a rank's GPU that are narrower than they could be, or send again what was damaged.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/telemetry/nvml_api.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr auto kIdleBits = static_cast<int64_t>(nvmlClocksEventReasonGpuIdle);

struct Link {
  int64_t width = 0, width_most = 0;  // lanes; 0: not known
  int64_t replays = 0;
  int64_t recoveries = 0;  // of NVLinks

  bool is_narrow() const { return width > 0 && width < width_most; }
};

Link link_of(const RankGpu& gpu) {
  const GpuHistory& history = *gpu.history;
  const TimeNs to = gpu.to + kFaultsAfterNs;
  Link link;
  // The most that was seen, as some machines let idle links sleep; of a short time only that of a
  // GPU that was never idle.
  const bool counts =
      !gpu.recent || share_of_bits(history, kIdleBits, gpu.from, gpu.to).value_or(1) == 0;
  link.width = counts ? most(history, GpuReading::kPcieWidth, gpu.from, to).value_or(0) : 0;
  link.width_most = most(history, GpuReading::kPcieWidthMost, gpu.from, to).value_or(0);
  link.replays = growth(history, GpuReading::kPcieReplays, gpu.from, to).value_or(0);
  link.recoveries = growth(history, GpuReading::kNvlinkRecoveries, gpu.from, to).value_or(0);
  return link;
}

std::vector<std::string> what_is_wrong(const std::vector<Link>& links, size_t which) {
  const Link& link = links[which];
  std::vector<std::optional<double>> replays;
  replays.reserve(links.size());
  for (const Link& each : links) {
    replays.emplace_back(static_cast<double>(each.replays));
  }
  const auto narrow = static_cast<size_t>(
      std::count_if(links.begin(), links.end(), [](const Link& each) { return each.is_narrow(); }));
  std::vector<std::string> wrong;
  // Where most are so, the machine is built like that.
  if (link.is_narrow() && 2 * narrow <= links.size()) {
    wrong.push_back(fmt::format("its PCIe link has {} of {} lanes", link.width, link.width_most));
  }
  if (link.replays >= kPcieReplaysMost &&
      static_cast<double>(link.replays) >= kHeldMore * median_of_others(replays, which)) {
    wrong.push_back(fmt::format("{} packets were sent again over its PCIe link", link.replays));
  }
  if (link.recoveries > 0) {
    wrong.push_back(fmt::format("its NVLinks recovered from errors {} times", link.recoveries));
  }
  return wrong;
}

}  // namespace

std::vector<Finding> find_degraded_links(const std::vector<RankGpu>& gpus) {
  std::vector<Link> links;
  links.reserve(gpus.size());
  for (const RankGpu& gpu : gpus) {
    links.push_back(link_of(gpu));
  }
  std::vector<Finding> findings;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const std::vector<std::string> wrong = what_is_wrong(links, i);
    if (wrong.empty()) {
      continue;
    }
    Finding& finding = findings.emplace_back();
    finding.code = "device.link-degraded";
    finding.severity = catalogue_row(finding.code)->severity;
    finding.title = fmt::format("a link of the GPU of {} is degraded: {}",
                                ranks_text(gpus[i].ranks), fmt::join(wrong, "; "));
    finding.culprits = gpus[i].ranks;
    finding.values = {{"width_count", links[i].width},
                      {"width_most_count", links[i].width_most},
                      {"replay_count", links[i].replays},
                      {"recovery_count", links[i].recoveries}};
    finding.evidence = {gpu_text(*gpus[i].history)};
    finding.advice =
        "reseat the GPU or its riser, and look at `lspci -vv` (LnkSta), `nvidia-smi -q -d PCIE` "
        "and "
        "`nvidia-smi nvlink -e`; drain the node until it is mended";
  }
  return findings;
}

}  // namespace traintrace
