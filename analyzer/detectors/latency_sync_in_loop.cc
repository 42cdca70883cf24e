// Calls that wait for the GPU and so let its queue run dry, again and again.
#include <fmt/format.h>

#include "analyzer/detectors/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_copy(const std::string& call) {
  return call.find("Memcpy") != call.npos && call.find("Async") != call.npos;
}

std::vector<Finding> find_blocking(const Profile& profile, bool copies) {
  const auto loss_at = [&](const DeviceProfile& device) {
    int64_t ns = 0;
    std::vector<int64_t> gaps;
    for (const IdleSite& site : device.sites) {
      if (site.cause == IdleCause::kSyncInduced && is_copy(site.call) == copies) {
        ns += site.ns;
        gaps.insert(gaps.end(), site.gaps.begin(), site.gaps.end());
      }
    }
    // Once in a profile, as its own last synchronisation, is no habit.
    return device.share(repeated_ns(device, std::move(gaps))) >= kWarnShare ? ns : 0;
  };
  const std::vector<LossOn> losses = idle_losses_of(profile, kWarnShare, loss_at);
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding(copies ? "latency.pageable-copy" : "latency.sync-in-loop", losses);
  const DeviceProfile& worst = *losses.front().device;
  finding.certainty = Certainty::kProof;
  finding.title =
      idle_text(losses) + (copies ? " after copies from pageable memory, which block the host"
                                  : " after calls that wait for it: its queue runs dry each time");
  finding.values.emplace_back("blocked_ns", worst.blocked_ns);
  for (const LossOn& loss : losses) {
    for (const IdleSite& site : loss.device->sites) {
      if (site.cause == IdleCause::kSyncInduced && is_copy(site.call) == copies) {
        finding.where.push_back(place_of(loss.device->rank, site));
        finding.evidence.push_back(fmt::format(
            "rank {}: {} idle in {} gaps after {}{}", loss.device->rank.value, ms_text(site.ns),
            site.gaps.size(), site.call, site.site.empty() ? "" : ", called by " + site.site));
        break;
      }
    }
  }
  finding.advice = copies ? "pin the host memory (pin_memory=True) and copy with non_blocking=True"
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
