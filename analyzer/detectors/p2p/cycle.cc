// All send first, or all receive first, and none of it completes.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/cycle_finding.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/waiting/cycles.h"

namespace traintrace {
namespace {

enum class First : uint8_t { kSends, kReceives, kBoth };

// What each of them does first.
First first_of(const Run& run, const Hang& cycle) {
  bool sends = false;
  bool receives = false;
  for (const Wait& wait : run.waits.waits) {
    if (is_part(wait, cycle.roots)) {
      sends = sends || wait.kind == WaitKind::kSend;
      receives = receives || wait.kind == WaitKind::kReceive;
    }
  }
  return sends == receives ? First::kBoth : sends ? First::kSends : First::kReceives;
}

const char* reason_of(First first) {
  return first == First::kSends
             ? "each of them sends first: a send that is larger than NCCL's buffers does not "
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
  const First first = first_of(run, cycle);
  if (first != First::kBoth) {
    finding.evidence.emplace_back(reason_of(first));
  }
  finding.advice = fmt::format(
      "put the send and the receive of an exchange between ncclGroupStart and ncclGroupEnd "
      "(batch_isend_irecv), or let every other rank {} first",
      first == First::kReceives ? "send" : "receive");
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
