// Ranks wait in the creation of a communicator that others have not called, or in its end.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/cycle_finding.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/missing_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/waiting/cycles.h"
#include "analyzer/model/waiting/ends.h"

namespace traintrace {
namespace {

void add_places(const Run& run, const IncompleteEnd& end, Finding& finding) {
  add_lines(last_call_lines(run, end.missing), finding.evidence);
  for (size_t i = 0; i < std::min(end.missing.size(), kEvidenceLines); ++i) {
    const RankState& state = *state_of(run, end.missing[i]);
    const auto activity = activity_of(run, state);
    if (auto place = activity ? user_place(trace_of(run, state), state.rank, activity->stack)
                              : std::nullopt) {
      finding.where.push_back(std::move(*place));
    }
  }
  const OpenEnd& first = end.waiting.front();
  if (auto place = user_place(run.processes[first.process], first.rank, first.stack)) {
    finding.where.push_back(std::move(*place));
  }
}

Finding finding_about(const Run& run, const IncompleteEnd& end) {
  const Communicator& communicator = run.communicators[end.communicator];
  Finding finding;
  finding.code = "comm.init-incomplete";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.certainty = Certainty::kLikely;
  finding.root = true;
  finding.operation = end.waiting.front().call;
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  for (const OpenEnd& open : end.waiting) {
    finding.victims.push_back(open.rank);
  }
  finding.sides = {end.missing, finding.victims};
  finding.title = fmt::format("{} {} {} on communicator {}; {} wait{} in it",
                              ranks_text(end.missing), never_text(run, end.missing, "entered"),
                              finding.operation, label_of(run, communicator),
                              ranks_text(finding.victims), finding.victims.size() == 1 ? "s" : "");
  if (end.missing.size() < finding.victims.size()) {
    finding.culprits = end.missing;
  } else {
    finding.title += "; no culprit: as many are missing as wait";
  }
  finding.values = {{"waited_ns", end.waited}};
  finding.evidence = {
      "all that these ranks called on it is finished",
      "no proof: NCCL may wait there for the ranks of one machine, and does not always"};
  add_places(run, end, finding);
  finding.advice = "let all ranks end the communicator, or none";
  return finding;
}

// Who has not called it waits elsewhere for those who have.
Finding finding_about(const Run& run, const Hang& cycle, const Ranks& missing) {
  Finding finding = ordered_cycle_finding(run, cycle, "comm.init-incomplete");
  const auto wait =
      std::find_if(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& other) {
        return other.kind == WaitKind::kInit && is_part(other, cycle.roots);
      });
  const Communicator& communicator = run.communicators[wait->communicator];
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  finding.operation = wait->operation;
  finding.sequence.reset();
  const auto own = std::find_if(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& w) {
    return is_part(w, cycle.roots) &&
           std::any_of(w.waiters.begin(), w.waiters.end(),
                       [&](const Waiter& waiter) { return contains(missing, waiter.rank); });
  });
  finding.title = fmt::format("{} {} {}; {}", ranks_text(missing),
                              never_text(run, missing, "entered"), operation_text(run, *wait),
                              own == run.waits.waits.end()
                                  ? finding.title
                                  : who_waits_where(run, *own, cycle.roots) + " meanwhile");
  finding.advice =
      "let all ranks call what creates a communicator, and at the same place in their order: a "
      "split is a collective of its parent, also for those who get no part of it";
  return finding;
}

}  // namespace

std::vector<Finding> find_incomplete_init(const Run& run) {
  std::vector<Finding> findings = find_missing(run, WaitKind::kInit, "comm.init-incomplete");
  for (const Hang& hang : run.waits.hangs) {
    const Ranks missing = is_cycle(run, hang) ? missing_from_creation(run, hang) : Ranks();
    if (!missing.empty()) {
      findings.push_back(finding_about(run, hang, missing));
    }
  }
  for (const IncompleteEnd& end : incomplete_ends(run)) {
    findings.push_back(finding_about(run, end));
  }
  return findings;
}

}  // namespace traintrace
