// The kernel of an operation finds no room on a GPU where that of another communicator waits.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/stall_finding.h"

namespace traintrace {

std::vector<Finding> find_not_resident(const Run& run) {
  return find_stalled(run, "device.not-resident", [&](const RootStall& root) {
    return root.stall.kind == StallKind::kNoRoom && !is_in_order(run, root.stall);
  });
}

}  // namespace traintrace
