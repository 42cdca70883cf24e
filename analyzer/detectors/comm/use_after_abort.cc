// A communicator was used after it was aborted or destroyed.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/misuse_finding.h"

namespace traintrace {

std::vector<Finding> find_use_after_abort(const Run& run) {
  return find_misuse(run, MisuseKind::kAfterEnd, "comm.use-after-abort");
}

}  // namespace traintrace
