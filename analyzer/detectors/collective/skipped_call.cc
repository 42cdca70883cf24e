// A rank left out a collective that the others made, and went on with the next.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_skipped_calls(const Run& run) {
  return find_diverged(run, {DivergenceKind::kSkipped}, "collective.skipped-call");
}

}  // namespace traintrace
