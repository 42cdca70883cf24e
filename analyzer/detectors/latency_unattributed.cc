// Too much of the idle time has no cause that was recorded: none is named.
#include <fmt/format.h>

#include "analyzer/detectors/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {

std::vector<Finding> find_unattributed(const Profile& profile) {
  const auto unknown = [](const DeviceProfile& device) {
    return is_attributed(device) ? 0
                                 : device.idle_for(IdleCause::kUnattributed) +
                                       device.idle_for(IdleCause::kDependency);
  };
  const std::vector<LossOn> losses = idle_losses_of(profile, kWarnShare, unknown);
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.unattributed", losses);
  const DeviceProfile& worst = *losses.front().device;
  finding.title =
      fmt::format("{}, and the recording does not say why for {} of it: no cause is named",
                  idle_text({{&worst, worst.times.idle_ns}}), ms_text(losses.front().ns));
  finding.culprits.clear();
  finding.values.emplace_back("total_idle_ns", worst.times.idle_ns);
  finding.advice = "record all events, from before the first launch, in a window of several steps";
  return {finding};
}

}  // namespace traintrace
