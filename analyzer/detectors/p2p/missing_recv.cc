// A rank waits in a send, too large to be buffered, whose receive was never posted.
#include <utility>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/divergence_finding.h"
#include "analyzer/detectors/hang/missing_finding.h"

namespace traintrace {

std::vector<Finding> find_missing_receive(const Run& run) {
  std::vector<Finding> findings = find_missing(run, WaitKind::kSend, "p2p.missing-recv");
  for (Finding& finding :
       find_diverged(run, {DivergenceKind::kMissingReceive}, "p2p.missing-recv")) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace traintrace
