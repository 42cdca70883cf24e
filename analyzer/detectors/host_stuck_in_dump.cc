// host.stuck where nobody looked at the stacks, but the rank is known to have nothing under way.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/model/idle_host.h"

namespace traintrace {
namespace {

Finding finding_of(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "host.stuck");
  const bool one = hang.roots.size() == 1;
  finding.title = fmt::format(
      "{} {} stuck on the host, outside NCCL: all that {} issued is finished, and nothing came "
      "after it; {} in {}{}",
      ranks_text(hang.roots), one ? "is" : "are", one ? "it" : "they", waiting_text(run, hang),
      operation_text(run, run.waits.waits[hang.wait]), behind_text(run, hang));
  finding.certainty = Certainty::kLikely;
  if (is_minority(hang)) {
    finding.culprits = hang.roots;
  } else {
    finding.title += "; as many do not wait as do, or more: nobody is blamed";
  }
  finding.evidence.emplace_back("where they are stuck is not seen: no stack was taken");
  finding.advice =
      "look at the stacks of that process (traintrace attach, py-spy): a lock, the GIL, a data "
      "loader, a file, or a computation that no other rank does";
  return finding;
}

}  // namespace

std::vector<Finding> find_idle_hosts(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (is_idle(run, hang)) {
      findings.push_back(finding_of(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
