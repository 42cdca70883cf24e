// A watchdog gave up an operation that all ranks were in; why it did not end is not known.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/stall_finding.h"

namespace traintrace {

std::vector<Finding> find_watchdog_aborts(const Run& run) {
  return find_stalled(run, "run.watchdog-abort", [](const RootStall& root) {
    return root.stall.kind == StallKind::kTransport && is_given_up(root);
  });
}

}  // namespace traintrace
