// A rank's GPU does not move in what its peers have finished.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/blame.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/stall_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/waiting/device_stall.h"

namespace traintrace {
namespace {

// What peers have finished dumps of Flight Recorder may no longer list, and only count.
std::string stall_text(const Run& run, Rank rank, const DeviceStall& stall) {
  return fmt::format(
      "rank {} issued {} #{} on communicator {} at {}, and it is unfinished there; {} finished it; "
      "{} operation{} of the rank {} unfinished",
      rank.value, stall.operation, stall.sequence,
      label_of(run, run.communicators[stall.communicator]), run_time(run, stall.details.enter),
      ranks_text(stall.peers), stall.pending, stall.pending == 1 ? "" : "s",
      stall.pending == 1 ? "is" : "are");
}

Finding found_in_dump(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "device.stalled");
  const bool one = hang.roots.size() == 1;
  finding.title = fmt::format(
      "the GPU{} of {} {} stalled: {} peers have finished what {} issued, and {} not; {} in {}{}",
      one ? "" : "s", ranks_text(hang.roots), one ? "is" : "are", one ? "its" : "their",
      one ? "it" : "they", one ? "it has" : "they have", waiting_text(run, hang),
      operation_text(run, run.waits.waits[hang.wait]), further_text(run, hang));
  finding.certainty = Certainty::kLikely;
  blame_minority(hang, finding);
  for (size_t i = 0; i < std::min(hang.roots.size(), kEvidenceLines); ++i) {
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

std::vector<Finding> find_stalled_devices(const Run& run) {
  std::vector<Finding> findings = find_stalled(run, "device.stalled", [](const RootStall& root) {
    return root.stall.kind == StallKind::kBehind;
  });
  for (const Hang& hang : run.waits.hangs) {
    if (hang.fate == Fate::kStalled && hang.divergences.empty()) {
      findings.push_back(found_in_dump(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
