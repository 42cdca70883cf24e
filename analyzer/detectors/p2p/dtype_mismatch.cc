// Both sides of a message posted, with different types.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_message_type_mismatch(const Run& run) {
  return find_diverged(run, {DivergenceKind::kMessageType, DivergenceKind::kHarmlessMessageType},
                       "p2p.dtype-mismatch");
}

}  // namespace traintrace
