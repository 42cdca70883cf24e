// Ranks that wait for each other: whatever they do, none of them goes on.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/cycle_finding.h"
#include "analyzer/detectors/hang/divergence_finding.h"
#include "analyzer/model/waiting/cycles.h"

namespace traintrace {
std::vector<Finding> find_cross_communicator_deadlock(const Run& run) {
  constexpr const char* kCode = "collective.cross-communicator-deadlock";
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (is_cycle(run, hang) && !is_of_peers(run, hang) && !is_first_use(run, hang) &&
        !is_against_collective(run, hang) && missing_from_creation(run, hang).empty()) {
      findings.push_back(ordered_cycle_finding(run, hang, kCode));
      findings.back().advice = order_advice(
          run, hang, findings.back(),
          "let all ranks enter the operations of different communicators in one order");
    }
  }
  for (Finding& finding : find_diverged(run, {DivergenceKind::kSwappedCommunicators}, kCode)) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace traintrace
