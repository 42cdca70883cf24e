// Ranks wait in the creation of a communicator that others have not called.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/missing_finding.h"

namespace traintrace {

std::vector<Finding> find_incomplete_init(const Run& run) {
  return find_missing(run, WaitKind::kInit, "comm.init-incomplete");
}

}  // namespace traintrace
