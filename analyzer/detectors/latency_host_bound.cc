// The GPU is faster than the host can launch, and nothing else holds the host up.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

int64_t late_launches(const DeviceProfile& device) {
  const bool queued = device.median_lead_ns >= kNoLeadNs;
  return is_attributed(device) ? late_loss(device, queued ? kQueuedShare : kWarnShare) : 0;
}

}  // namespace

std::vector<Finding> find_host_bound(const Profile& profile) {
  const std::vector<LossOn> losses = idle_losses_of(profile, kWarnShare, late_launches);
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.host-bound", losses);
  const DeviceProfile& worst = *losses.front().device;
  finding.title = "host-bound: " + idle_text(losses) + " because kernels are launched too late";
  add_alike(profile, losses, HostTime::kLaunching,
            "launch too slowly as well, while their GPUs wait in collectives", finding);
  finding.values.emplace_back("busy_percent", percent_of(worst, worst.times.busy_ns));
  finding.values.emplace_back("median_lead_ns", worst.median_lead_ns);
  finding.evidence.push_back(
      worst.median_lead_ns < 0
          ? fmt::format("rank {}: half of the launches returned after their work had begun",
                        worst.rank.value)
          : fmt::format("rank {}: half of the launches returned less than {:.1f} us before their "
                        "work began",
                        worst.rank.value, static_cast<double>(worst.median_lead_ns) / 1e3));
  add_sites(losses, late_sites, finding);
  finding.advice =
      "fewer and larger kernels: CUDA graphs, torch.compile, fused optimizers, larger batches; or "
      "less Python between launches";
  return {finding};
}

}  // namespace traintrace
