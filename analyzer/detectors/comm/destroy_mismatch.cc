// A rank destroyed a communicator that the others still use.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

Finding destroy_finding(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  Finding finding = hang_finding(run, hang, "comm.destroy-mismatch");
  std::vector<CodePlace> places;
  for (const Rank rank : hang.roots) {
    const Member& member = *member_of(run.communicators[wait.communicator], rank);
    const CommunicatorText& text = text_of(run, member);
    const auto place = user_place(run.processes[member.process], rank, text.ended_stack);
    if (place) {
      places.push_back(*place);
    }
    finding.evidence.push_back(fmt::format("rank {} called ncclCommDestroy at {}{}", rank.value,
                                           run_time(run, text.ended),
                                           place ? ", at " + place_text(*place) : ""));
  }
  finding.where.insert(finding.where.begin(), places.begin(), places.end());
  finding.title =
      fmt::format("{} destroyed the communicator of {}; {} in it{}", ranks_text(hang.roots),
                  operation_text(run, wait), waiting_text(run, hang), further_text(run, hang));
  const bool sure = !doubts_about(run, hang).any();
  finding.certainty = sure ? Certainty::kProof : Certainty::kLikely;
  if (is_minority(hang)) {
    finding.culprits = hang.roots;
  } else {
    finding.title += "; no culprit: as many have left it as wait";
  }
  finding.advice = "let all ranks issue the same collectives before any of them destroys it";
  return finding;
}

}  // namespace

std::vector<Finding> find_destroy_mismatch(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (cause_of(run, hang) == Cause::kDestroyed) {
      findings.push_back(destroy_finding(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
