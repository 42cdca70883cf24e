// Ranks that wait for each other: whatever they do, none of them goes on.
#include <algorithm>

#include "analyzer/detectors/circle_finding.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/model/circles.h"

namespace traintrace {
namespace {

Finding finding_about(const Run& run, const Hang& circle, Order order) {
  Finding finding = circle_finding(run, circle, "collective.cross-communicator-deadlock");
  const bool sure = order == Order::kCertain && !doubts_about(run, circle).any();
  finding.certainty = std::max(finding.certainty, sure ? Certainty::kProof : Certainty::kLikely);
  if (order == Order::kThread) {
    finding.evidence.push_back(
        "not proof: a further thread of one of them is in no call, and may yet go there");
  }
  if (order == Order::kNone) {
    finding.certainty = Certainty::kPossible;
    finding.culprits.clear();
    finding.victims = circle.victims;
    finding.evidence.push_back("not sure: nothing that was seen keeps one of them from going on");
  }
  finding.advice = "let all ranks enter the operations of different communicators in one order";
  return finding;
}

}  // namespace

std::vector<Finding> find_cross_communicator_deadlock(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (is_circle(run, hang) && !is_of_peers(run, hang) && !is_first_use(run, hang)) {
      findings.push_back(finding_about(run, hang, order_of(run, hang)));
    }
  }
  return findings;
}

}  // namespace traintrace
