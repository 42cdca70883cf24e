// All ranks are in an operation, and none gets past it.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/stall_finding.h"
#include "analyzer/model/exchanges.h"

namespace traintrace {

std::vector<Finding> find_transport_stalls(const Run& run) {
  return find_stalled(run, "device.transport-stall", [&](const RootStall& root) {
    return root.stall.kind == StallKind::kTransport && !is_given_up(root) &&
           !uneven_exchange(run, root.stall);
  });
}

}  // namespace traintrace
