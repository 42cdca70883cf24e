// Calls that wait for the GPU and so let its queue run dry, again and again.
#include <fmt/format.h>

#include "analyzer/detectors/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_copy(const std::string& call) {
  return call.find("Memcpy") != call.npos && call.find("Async") != call.npos;
}

// They wait for their GPUs as much, and go on at once: it is what the host does after the call.
bool others_lose_nothing(const Profile& profile, const Finding& finding) {
  return std::any_of(
      profile.devices.begin(), profile.devices.end(), [&](const DeviceProfile& device) {
        return !contains(finding.culprits, device.rank) &&
               device.share(device.blocked_ns) >= kWarnShare &&
               device.idle_for(IdleCause::kSyncInduced) <= device.blocked_ns / kHarmlessIdle;
      });
}

std::vector<Finding> find_blocking(const Profile& profile, bool copies) {
  const auto sites_of = [copies](const DeviceProfile& device) {
    return repeated_sites(device, [copies](const IdleSite& site) {
      return site.cause == IdleCause::kSyncInduced && is_copy(site.call) == copies;
    });
  };
  const std::vector<LossOn> losses = idle_losses_of(
      profile, kWarnShare, [&](const DeviceProfile& device) { return sum_ns(sites_of(device)); });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding(copies ? "latency.pageable-copy" : "latency.sync-in-loop", losses);
  finding.certainty = Certainty::kProof;
  finding.title =
      idle_text(losses) + (copies ? " after copies from pageable memory, which block the host"
                                  : " after calls that wait for it: its queue runs dry each time");
  finding.values.emplace_back("blocked_ns", losses.front().device->blocked_ns);
  add_sites(losses, sites_of, finding);
  if (losses.front().device->by_host || (!copies && others_lose_nothing(profile, finding))) {
    finding.advice =
        "shorten what the host does from that line to its next launch (data loading, logging, "
        "Python), or launch the next work before that call";
    return {finding};
  }
  finding.advice = copies ? "pin the host memory (pin_memory=True) and copy with non_blocking=True"
                   : sites_of(*losses.front().device).front().call == "cudaDeviceSynchronize"
                       ? "leave out that call (torch.cuda.synchronize) where only times are "
                         "measured, or launch the next work before it"
                       : "do not read values of the GPU in each step: log every n-th, or keep "
                         "them on the device";
  return {finding};
}

}  // namespace

std::vector<Finding> find_sync_in_loop(const Profile& profile) {
  std::vector<Finding> findings = find_blocking(profile, false);
  std::vector<Finding> copies = find_blocking(profile, true);
  findings.insert(findings.end(), copies.begin(), copies.end());
  return findings;
}

}  // namespace traintrace
