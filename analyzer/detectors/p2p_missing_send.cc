// A rank waits in a receive whose send was never posted.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/missing_finding.h"

namespace traintrace {

std::vector<Finding> find_missing_send(const Run& run) {
  return find_missing(run, WaitKind::kReceive, "p2p.missing-send");
}

}  // namespace traintrace
