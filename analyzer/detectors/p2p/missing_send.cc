// A rank waits in a receive whose send was never posted.
#include <utility>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/cycle_finding.h"
#include "analyzer/detectors/hang/divergence_finding.h"
#include "analyzer/detectors/hang/missing_finding.h"

namespace traintrace {

std::vector<Finding> find_missing_send(const Run& run) {
  constexpr const char* kCode = "p2p.missing-send";
  std::vector<Finding> findings = find_missing(run, WaitKind::kReceive, kCode);
  for (Finding& finding : find_diverged(run, {DivergenceKind::kMissingSend}, kCode)) {
    findings.push_back(std::move(finding));
  }
  for (const Hang& hang : run.waits.hangs) {
    auto finding = is_cycle(run, hang) ? left_out_send(run, hang, kCode) : std::nullopt;
    if (finding) {
      finding->advice =
          "look at the branch that this rank took: it left out a send, or receives once more";
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace traintrace
