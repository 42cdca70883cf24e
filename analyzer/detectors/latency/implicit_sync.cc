// Memory is taken from the device or given back, or code loaded, while the GPU has nothing to do,
// or until it has.
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

int64_t allocating(const DeviceProfile& device) {
  return repeated_loss(device, IdleCause::kAllocator);
}

}  // namespace

std::vector<Finding> find_implicit_sync(const Profile& profile) {
  const std::vector<LossOn> losses = idle_losses_of(profile, kWarnShare, allocating);
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.implicit-sync", losses);
  finding.certainty = Certainty::kProof;
  finding.title = idle_text(losses) + " because memory is taken and given back, or code loaded";
  add_sites(
      losses,
      [](const DeviceProfile& device) {
        return repeated_sites(device, of_cause(IdleCause::kAllocator));
      },
      finding);
  finding.advice = "allocate before the loop, or through a caching allocator; load code ahead";
  return {finding};
}

}  // namespace traintrace
