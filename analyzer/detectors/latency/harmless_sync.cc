// The host waits for the GPU, and the GPU has work all the while.
#include <fmt/format.h>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

int64_t harmless(const DeviceProfile& device) {
  const int64_t idle = device.idle_for(IdleCause::kSyncInduced);
  return idle <= device.blocked_ns / kHarmlessIdle ? device.blocked_ns : 0;
}

}  // namespace

std::vector<Finding> find_harmless_sync(const Profile& profile) {
  const std::vector<LossOn> blocked = losses_of(profile, kWarnShare, harmless);
  if (blocked.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.harmless-sync", blocked, Comes::kNowAndThen);
  const DeviceProfile& worst = *blocked.front().device;
  const int64_t idle = worst.idle_for(IdleCause::kSyncInduced);
  finding.certainty = Certainty::kProof;
  finding.title = fmt::format(
      "calls that wait for the GPU block the host of {} for {}, which costs the GPU {}",
      ranks_text(finding.culprits), share_text(worst, blocked.front().ns), ms_text(idle));
  finding.culprits.clear();
  finding.values = {{"blocked_ns", worst.blocked_ns}, {"idle_ns", idle}};
  return {finding};
}

}  // namespace traintrace
