// A rank's GPU does not move in what its peers have finished.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/stall_finding.h"

namespace traintrace {

std::vector<Finding> find_stalled_devices(const Run& run) {
  return find_stalled(run, "device.stalled",
                      [](const RootStall& root) { return root.stall.kind == StallKind::kBehind; });
}

}  // namespace traintrace
