// A rank made a collective that nobody else did.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_extra_calls(const Run& run) {
  return find_diverged(run, {DivergenceKind::kExtra}, "collective.extra-call");
}

}  // namespace traintrace
