// All send first, or all receive first, and none of it completes.
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/cycle_finding.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/waiting/cycles.h"

namespace traintrace {
namespace {

// Why none of them goes on; empty: some send and some receive.
std::string reason_of(const Run& run, const Hang& cycle) {
  bool sends = false;
  bool receives = false;
  for (const Wait& wait : run.waits.waits) {
    if (is_part(wait, cycle.roots)) {
      sends = sends || wait.kind == WaitKind::kSend;
      receives = receives || wait.kind == WaitKind::kReceive;
    }
  }
  return sends == receives ? ""
         : sends ? "each of them sends first: a send that is larger than NCCL's buffers does not "
                   "complete before its receive is posted"
                 : "each of them receives first, and sends nothing before it has received";
}

Finding message_cycle_finding(const Run& run, const Hang& cycle) {
  Finding finding = cycle_finding(run, cycle, "p2p.cycle");
  // A cycle of messages is symmetric: whoever turned its two calls round would end it.
  finding.culprits.clear();
  finding.victims = cycle.victims;
  const Order order = order_of(run, cycle);
  const bool sure = order == Order::kCertain && !doubts_about(run, cycle).any();
  finding.certainty = order == Order::kNone ? Certainty::kPossible
                      : sure                ? Certainty::kProof
                                            : Certainty::kLikely;
  if (const std::string reason = reason_of(run, cycle); !reason.empty()) {
    finding.evidence.push_back(reason);
  }
  finding.advice =
      "put the send and the receive of an exchange between ncclGroupStart and ncclGroupEnd "
      "(batch_isend_irecv), or let every other rank receive first";
  return finding;
}

}  // namespace

std::vector<Finding> find_message_cycle(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (is_cycle(run, hang) && is_of_peers(run, hang) &&
        !left_out_send(run, hang, "p2p.missing-send")) {
      findings.push_back(message_cycle_finding(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
