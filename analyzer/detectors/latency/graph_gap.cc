// Holes inside the replay of a graph: the host has no part in them.
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {

std::vector<Finding> find_graph_gaps(const Profile& profile) {
  const std::vector<LossOn> losses = losses_of(
      profile, kWarnShare,
      [](const DeviceProfile& device) { return device.idle_for(IdleCause::kGraphInternal); });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.graph-gap", losses);
  finding.title = idle_text(losses) + " within replays of graphs, between their nodes";
  for (const LossOn& loss : losses) {
    name_loss(*loss.device, static_cast<size_t>(IdleCause::kGraphInternal), loss.ns, finding);
  }
  finding.advice =
      "look at the graph's dependencies and host nodes: the host's launches are not the reason";
  return {finding};
}

}  // namespace traintrace
