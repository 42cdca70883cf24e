#include "analyzer/detectors/hang/blame.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/model/divergence/usual_order.h"

namespace traintrace {

namespace {

// One waits for the other in a collective, and nobody else waits: no majority tells which of them
// is wrong.  But the one that waits did as in each earlier step, so that it is the other that
// changed.
bool has_one_of_two_changed(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  if (wait.kind != WaitKind::kCollective || hang.roots.size() != 1 || hang.victims.size() != 1 ||
      wait.waiters.size() != 1 || (hang.fate != Fate::kExited && hang.fate != Fate::kAlive)) {
    return false;
  }
  const Waiter& waiter = wait.waiters.front();
  return departs_from_habit(run, waiter.rank, wait.communicator, waiter.since) == false;
}

}  // namespace

void blame_minority(const Hang& hang, Finding& finding, std::string_view tie) {
  if (hang.by_one_of_two) {
    finding.title += "; either it left that out, or it was not to be asked: no culprit";
  } else if (is_minority(hang)) {
    finding.culprits = hang.roots;
  } else {
    finding.title += fmt::format("; no culprit: {}", tie);
  }
}

void blame_missing_roots(const Run& run, const Hang& hang, Finding& finding, std::string_view tie) {
  if (hang.by_one_of_two || !has_one_of_two_changed(run, hang)) {
    blame_minority(hang, finding, tie);
    return;
  }
  finding.culprits = hang.roots;
  finding.certainty = std::max(finding.certainty, Certainty::kLikely);
  finding.evidence.push_back(
      fmt::format("{} called what it called in each earlier step; {} did not come to it this time",
                  ranks_text(hang.victims), ranks_text(hang.roots)));
}

}  // namespace traintrace
