// Different functions met at the same place of a communicator.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_operation_mismatch(const Run& run) {
  return find_diverged(run, {DivergenceKind::kFunction, DivergenceKind::kUnknown},
                       "collective.operation-mismatch");
}

}  // namespace traintrace
