// Different data types met at the same place of a communicator.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_type_mismatch(const Run& run) {
  return find_diverged(run, {DivergenceKind::kType, DivergenceKind::kHarmlessType},
                       "collective.dtype-mismatch");
}

}  // namespace traintrace
