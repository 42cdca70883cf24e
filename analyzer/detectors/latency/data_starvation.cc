// The GPU has nothing to do while the thread that feeds it is in the data loader.
#include <fmt/format.h>

#include <set>

#include "analyzer/detectors/lost_time/habit.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

std::vector<IdleSite> starving_sites(const DeviceProfile& device) {
  return repeated_sites(device, of_cause(IdleCause::kDataStarvation));
}

// In how many steps, where these are less than half of all; else 0.
size_t few_steps(const DeviceProfile& device) {
  std::set<int64_t> steps;
  for (const IdleSite& site : starving_sites(device)) {
    for (const IdleGap& gap : site.gaps) {
      steps.insert(stretch_of(device, gap));
    }
  }
  return device.steps >= 2 && 2 * steps.size() < device.steps ? steps.size() : 0;
}

}  // namespace

std::vector<Finding> find_data_starvation(const Profile& profile) {
  const std::vector<LossOn> losses =
      idle_losses_of(profile, kWarnShare, [](const DeviceProfile& device) {
        return repeated_loss(device, IdleCause::kDataStarvation);
      });
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  const size_t in_few = few_steps(worst);
  Finding finding = loss_finding("latency.data-starvation", losses,
                                 in_few == 0 ? Comes::kAgainAndAgain : Comes::kNowAndThen);
  finding.certainty = Certainty::kProof;  // the thread was in it
  finding.title =
      idle_text(losses) + (losses.size() == 1 ? " because it waits for the data loader"
                                              : " because they wait for the data loader");
  finding.title += in_few == 0 ? ""
                               : fmt::format(
                                     " of a loop of its own, as an evaluation, in {} of {} "
                                     "steps",
                                     in_few, worst.steps);
  add_alike(profile, losses, HostTime::kLoader,
            {"is held up by it too, while its GPU waits in collectives",
             "are held up by it too, while their GPUs wait in collectives"},
            finding);
  add_sites(losses, starving_sites, finding);
  finding.advice =
      "more workers, cheaper transforms, or prefetching: the loader is slower than the step";
  return {finding};
}

}  // namespace traintrace
