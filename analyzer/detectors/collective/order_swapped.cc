// A rank issued two collectives of one communicator in the other order.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_swapped_order(const Run& run) {
  return find_diverged(run, {DivergenceKind::kSwapped}, "collective.order-swapped");
}

}  // namespace traintrace
