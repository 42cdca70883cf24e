// Calls that wait for the GPU and so let its queue run dry, again and again.
#include <fmt/format.h>

#include "analyzer/detectors/lost_time/host_between.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

std::vector<IdleSite> idle_after_syncs(const DeviceProfile& device) {
  return repeated_sites(device, [](const IdleSite& site) {
    return site.cause == IdleCause::kSyncInduced && !is_after_pageable_copy(site);
  });
}

}  // namespace

bool is_made_by_others(const Profile& profile, const Finding& finding) {
  return std::any_of(
      profile.devices.begin(), profile.devices.end(), [&](const DeviceProfile& device) {
        return device.by_host ||
               (!contains(finding.culprits, device.rank) &&
                device.share(device.blocked_ns) >= kWarnShare &&
                device.idle_for(IdleCause::kSyncInduced) <= device.blocked_ns / kHarmlessIdle);
      });
}

std::vector<Finding> find_sync_in_loop(const Profile& profile) {
  const std::vector<LossOn> losses =
      idle_losses_of(profile, kWarnShare,
                     [](const DeviceProfile& device) { return sum_ns(idle_after_syncs(device)); });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.sync-in-loop", losses);
  finding.certainty = Certainty::kProof;
  finding.title = idle_text(losses) + " after calls that wait for it: its queue runs dry each time";
  finding.values.emplace_back("blocked_ns", losses.front().device->blocked_ns);
  add_sites(losses, idle_after_syncs, finding);
  if (losses.front().device->by_host) {
    add_host_between(profile, *losses.front().device,
                     "from the return of these calls to its next launch",
                     idle_after_syncs(*losses.front().device), finding);
  }
  if (is_made_by_others(profile, finding)) {
    finding.advice =
        "shorten what the host does from that line to its next launch (data loading, logging, "
        "Python), or launch the next work before that call";
    return {finding};
  }
  const std::string call = idle_after_syncs(*losses.front().device).front().call;
  finding.advice = call == "cudaDeviceSynchronize"
                       ? "leave out that call (torch.cuda.synchronize) where only times are "
                         "measured, or launch the next work before it"
                       : "do not read values of the GPU in each step: log every n-th, or keep "
                         "them on the device";
  return {finding};
}

}  // namespace traintrace
