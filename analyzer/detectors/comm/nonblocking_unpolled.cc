// The next call on a non-blocking communicator came before the one before it was done.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/misuse_finding.h"

namespace traintrace {

std::vector<Finding> find_unpolled(const Run& run) {
  return find_misuse(run, MisuseKind::kTooEarly, "comm.nonblocking-unpolled");
}

}  // namespace traintrace
