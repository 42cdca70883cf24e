// device.stalled as dumps of Flight Recorder show it: what peers have finished they may no longer
// list, and only count.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/device_stall.h"

namespace traintrace {
namespace {

std::string stall_text(const Run& run, Rank rank, const DeviceStall& stall) {
  return fmt::format(
      "rank {} issued {} #{} on communicator {} at {} and it is not finished there; {} {} through "
      "with it; {} operation{} of the rank {} not finished",
      rank.value, stall.operation, stall.sequence,
      label_of(run, run.communicators[stall.communicator]), run_time(run, stall.details.enter),
      ranks_text(stall.peers), stall.peers.size() == 1 ? "is" : "are", stall.pending,
      stall.pending == 1 ? "" : "s", stall.pending == 1 ? "is" : "are");
}

Finding finding_of(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "device.stalled");
  const bool one = hang.roots.size() == 1;
  finding.title = fmt::format(
      "the GPU{} of {} {} not move: what {} issued is not finished, and {} peers are through with "
      "it; {} in {}{}",
      one ? "" : "s", ranks_text(hang.roots), one ? "does" : "do", one ? "it" : "they",
      one ? "its" : "their", waiting_text(run, hang),
      operation_text(run, run.waits.waits[hang.wait]), behind_text(run, hang));
  finding.certainty = Certainty::kLikely;
  if (is_minority(hang)) {
    finding.culprits = hang.roots;
  } else {
    finding.title += "; as many do not wait as do, or more: nobody is blamed";
  }
  constexpr size_t kMostRanks = 8;
  for (size_t i = 0; i < std::min(hang.roots.size(), kMostRanks); ++i) {
    if (const auto stall = device_stall(run, hang.roots[i])) {
      finding.evidence.push_back(stall_text(run, hang.roots[i], *stall));
    }
  }
  finding.advice =
      "look at that GPU (dmesg for Xid, nvidia-smi, an asynchronous CUDA error in the rank's log) "
      "and at what the rank's own kernels do";
  return finding;
}

}  // namespace

std::vector<Finding> find_stalled_in_dumps(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (hang.fate == Fate::kStalled && hang.divergences.empty()) {
      findings.push_back(finding_of(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
