// A rank called a collective with count 0, which NCCL drops, and the others did not.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_empty_calls(const Run& run) {
  return find_diverged(run, {DivergenceKind::kEmpty}, "collective.empty-call");
}

}  // namespace traintrace
