// A rank has not entered the collective that the others wait in.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/missing_finding.h"

namespace traintrace {

std::vector<Finding> find_missing_rank(const Run& run) {
  return find_missing(run, WaitKind::kCollective, "collective.missing-rank");
}

}  // namespace traintrace
