// The first launch of a kernel loads its code, and the GPU waits for it.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/lost_time/latency_finding.h"

namespace traintrace {
namespace {

std::vector<IdleSite> sites_of(const DeviceProfile& device) {
  std::vector<IdleSite> sites;
  std::copy_if(device.sites.begin(), device.sites.end(), std::back_inserter(sites),
               of_cause(IdleCause::kLazyLoad));
  return sites;
}

}  // namespace

std::vector<Finding> find_lazy_loads(const Profile& profile) {
  const std::vector<LossOn> losses = idle_losses_of(
      profile, kWarnShare,
      [](const DeviceProfile& device) { return device.idle_for(IdleCause::kLazyLoad); });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.lazy-load", losses, Comes::kNowAndThen);
  const DeviceProfile& worst = *losses.front().device;
  // Else it may be start-up.
  const bool in_the_loop = std::any_of(losses.begin(), losses.end(), [](const LossOn& loss) {
    return loss.device->loop_start_ns.has_value();
  });
  finding.severity = in_the_loop ? finding.severity : Severity::kInfo;
  size_t launches = 0;
  for (const IdleSite& site : sites_of(worst)) {
    launches += site.gaps.size();
  }
  finding.title = fmt::format("{} inside {} launch calls, each the first of its kernel",
                              idle_text(losses), launches);
  finding.values.emplace_back("launch_count", static_cast<int64_t>(launches));
  add_sites(losses, sites_of, finding);
  finding.sides = {finding.culprits};
  finding.culprits.clear();
  finding.advice =
      "load code before the loop: CUDA_MODULE_LOADING=EAGER, or a warm-up run over all shapes";
  return {finding};
}

}  // namespace traintrace
