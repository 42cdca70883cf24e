// The GPU has nothing to do while the thread that feeds it is in the data loader.
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {

std::vector<Finding> find_data_starvation(const Profile& profile) {
  const std::vector<LossOn> losses =
      idle_losses_of(profile, kWarnShare, [](const DeviceProfile& device) {
        return repeated_loss(device, IdleCause::kDataStarvation);
      });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.data-starvation", losses);
  finding.certainty = Certainty::kProof;  // the thread was in it
  finding.title =
      idle_text(losses) + (losses.size() == 1 ? " because it waits for the data loader"
                                              : " because they wait for the data loader");
  add_alike(profile, losses, HostTime::kLoader,
            {"is held up by it too, while its GPU waits in collectives",
             "are held up by it too, while their GPUs wait in collectives"},
            finding);
  add_sites(
      losses,
      [](const DeviceProfile& device) {
        return repeated_sites(device, of_cause(IdleCause::kDataStarvation));
      },
      finding);
  finding.advice =
      "more workers, cheaper transforms, or prefetching: the loader is slower than the step";
  return {finding};
}

}  // namespace traintrace
