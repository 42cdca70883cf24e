// Both sides of a message posted, with different counts.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_message_count_mismatch(const Run& run) {
  return find_diverged(run, {DivergenceKind::kMessageCount}, "p2p.count-mismatch");
}

}  // namespace traintrace
