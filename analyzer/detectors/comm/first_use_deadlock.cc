// Ranks are inside the first operations of different communicators, which connect on the host and
// wait there for the others: streams of their own do not help.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/cycle_finding.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/waiting/cycles.h"

namespace traintrace {

std::vector<Finding> find_first_use_deadlock(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (!is_cycle(run, hang) || is_of_peers(run, hang) || !is_first_use(run, hang)) {
      continue;
    }
    Finding finding = cycle_finding(run, hang, "comm.first-use-deadlock");
    finding.certainty = doubts_about(run, hang).any() ? Certainty::kLikely : Certainty::kProof;
    finding.evidence.push_back(
        "the first operation on a communicator connects its members on the host: the call returns "
        "once all of them have made theirs");
    finding.advice =
        "use each communicator once, in one order on all ranks, before the work begins; or let "
        "NCCL connect when it is created (NCCL_RUNTIME_CONNECT=0)";
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace traintrace
