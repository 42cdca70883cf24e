// Two messages between the same ranks, posted in crossed order.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_message_order(const Run& run) {
  return find_diverged(run, {DivergenceKind::kMessageOrder}, "p2p.order");
}

}  // namespace traintrace
