// A rank called what the others wait in, inside a group that it never closed.
#include <fmt/format.h>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

Finding unclosed_group_finding(const Run& run, Hang hang) {
  // Where the calls are that lie in the group, and not where the earliest waits.
  hang.wait = unclosed_call(run, hang, hang.roots.front())->wait;
  const Wait& wait = run.waits.waits[hang.wait];
  Finding finding = hang_finding(run, hang, "collective.group-unclosed");
  std::vector<CodePlace> opened;
  for (const Rank rank : hang.roots) {
    const RankState& state = *state_of(run, rank);
    const OpenGroup open = unclosed_call(run, hang, rank)->group;
    const auto place = user_place(trace_of(run, state), rank, open.stack);
    if (place) {
      opened.push_back(*place);
    }
    finding.evidence.push_back(fmt::format(
        "rank {} has a group open{}; what it called inside since {} was never launched", rank.value,
        place ? fmt::format(", since ncclGroupStart at {}", place_text(*place)) : "",
        run_time(run, open.first->enter)));
  }
  finding.where.insert(finding.where.begin(), opened.begin(), opened.end());
  finding.title = fmt::format("{} called {} inside a group and never closed it; {} in it{}",
                              ranks_text(hang.roots), operation_text(run, wait),
                              waiting_text(run, hang), further_text(run, hang));
  finding.culprits = hang.roots;
  finding.certainty = doubts_about(run, hang).any() ? Certainty::kLikely : Certainty::kProof;
  finding.advice = "close the group on every path: an ncclGroupEnd for each ncclGroupStart";
  return finding;
}

}  // namespace

std::vector<Finding> find_unclosed_groups(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (cause_of(run, hang) == Cause::kOpenGroup) {
      findings.push_back(unclosed_group_finding(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
