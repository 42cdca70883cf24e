// The same collectives, grouped differently on some ranks.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"

namespace traintrace {

std::vector<Finding> find_group_mismatch(const Run& run) {
  return find_diverged(run, {DivergenceKind::kGroups}, "collective.group-mismatch");
}

}  // namespace traintrace
