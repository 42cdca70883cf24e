// A rank waits in a send, too large to be buffered, whose receive was never posted.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/missing_finding.h"

namespace traintrace {

std::vector<Finding> find_missing_receive(const Run& run) {
  return find_missing(run, WaitKind::kSend, "p2p.missing-recv");
}

}  // namespace traintrace
