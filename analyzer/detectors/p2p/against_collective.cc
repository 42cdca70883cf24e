// A rank is in a send or receive on a communicator whose other members are in a collective.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/cycle_finding.h"
#include "analyzer/detectors/hang/divergence_finding.h"
#include "analyzer/model/waiting/cycles.h"

namespace traintrace {

std::vector<Finding> find_peers_against_collective(const Run& run) {
  constexpr const char* kCode = "p2p.against-collective";
  std::vector<Finding> findings = find_diverged(run, {DivergenceKind::kPeer}, kCode);
  for (const Hang& hang : run.waits.hangs) {
    if (is_cycle(run, hang) && is_against_collective(run, hang) && !is_first_use(run, hang)) {
      findings.push_back(ordered_cycle_finding(run, hang, kCode));
      findings.back().advice = order_advice(
          run, hang, findings.back(),
          "let all ranks issue the collectives and messages of a communicator in one order");
    }
  }
  return findings;
}

}  // namespace traintrace
