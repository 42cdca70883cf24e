// An operation never started on a rank: something before it blocks its stream.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/stall_finding.h"

namespace traintrace {

std::vector<Finding> find_blocked_streams(const Run& run) {
  return find_stalled(run, "device.blocked-stream",
                      [](const RootStall& root) { return root.stall.kind == StallKind::kBlocked; });
}

}  // namespace traintrace
