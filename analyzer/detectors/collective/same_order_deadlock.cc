// All ranks issue in one order, and the GPUs run it in another.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/stall_finding.h"

namespace traintrace {

std::vector<Finding> find_same_order_deadlock(const Run& run) {
  return find_stalled(run, "collective.same-order-deadlock", [&](const RootStall& root) {
    return root.stall.kind == StallKind::kNoRoom && is_in_order(run, root.stall);
  });
}

}  // namespace traintrace
