// A rank waits in a receive whose send was never posted.
#include <utility>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/divergence_finding.h"
#include "analyzer/detectors/missing_finding.h"

namespace traintrace {

std::vector<Finding> find_missing_send(const Run& run) {
  std::vector<Finding> findings = find_missing(run, WaitKind::kReceive, "p2p.missing-send");
  for (Finding& finding : find_diverged(run, {DivergenceKind::kMissingSend}, "p2p.missing-send")) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace traintrace
