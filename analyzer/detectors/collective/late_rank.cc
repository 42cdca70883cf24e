// All came, and the others waited for one: late, and no deadlock.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/lateness.h"
#include "analyzer/model/waiting/stalls.h"

namespace traintrace {
namespace {

void add_place(const Run& run, const Lateness& lateness, Rank rank, Finding& finding) {
  const Member& member = *member_of(run.communicators[lateness.communicator], rank);
  const OperationText& operation = *collective_at(text_of(run, member), lateness.sequence);
  if (const auto place = user_place(run.processes[member.process], rank, operation.stack)) {
    finding.where.push_back(*place);
  }
}

// Where they were before they came: autograd's threads, which call the collectives of a backward
// pass, have no line.
void add_lines_before(const Run& run, const Lateness& lateness, Finding& finding) {
  std::vector<CodePlace> places;
  for (size_t i = 0; i < std::min(lateness.late.size(), kEvidenceLines); ++i) {
    const Rank rank = lateness.late[i];
    const Member& member = *member_of(run.communicators[lateness.communicator], rank);
    const TimeNs entered = collective_at(text_of(run, member), lateness.sequence)->enter;
    const auto last = call_before_pause(run, rank, lateness.from, entered - 1);
    if (!last) {
      continue;
    }
    finding.evidence.push_back(
        fmt::format("rank {}: its last call from a line of Python before its longest pause was {}",
                    rank.value, placed_text(run, *last)));
    if (std::none_of(finding.where.begin(), finding.where.end(),
                     [&](const CodePlace& place) { return place.rank == rank; })) {
      places.push_back(last->place);
    }
  }
  finding.where.insert(finding.where.begin(), places.begin(), places.end());
}

Finding finding_about(const Run& run, const Lateness& lateness) {
  const Communicator& communicator = run.communicators[lateness.communicator];
  const Member& first = *member_of(communicator, lateness.late.front());
  const OperationText& operation = *collective_at(text_of(run, first), lateness.sequence);
  Finding finding;
  finding.code = "collective.late-rank";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.certainty = are_on_one_host(run, communicator) ? Certainty::kProof : Certainty::kLikely;
  finding.root = true;
  finding.operation = call_name(run.processes[first.process], operation.call);
  finding.title = fmt::format(
      "{} entered {} #{} on communicator {} {} after the others{}: late, "
      "not a deadlock",
      ranks_text(lateness.late), finding.operation, lateness.sequence, label_of(run, communicator),
      seconds(lateness.by()),
      lateness.times == 1 ? "" : fmt::format(" (late {} times)", lateness.times));
  finding.victims = lateness.others;
  finding.sides = {lateness.late, lateness.others};
  if (!lateness.held_up.empty()) {
    finding.sides.push_back(lateness.held_up);
    std::for_each(lateness.held_up.begin(), lateness.held_up.end(),
                  [&](Rank rank) { insert(finding.victims, rank); });
  }
  if (lateness.alone) {
    finding.culprits = lateness.late;
  } else {
    finding.certainty = Certainty::kPossible;
    finding.title += "; no culprit: others came late elsewhere meanwhile";
  }
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  finding.sequence = lateness.sequence;
  finding.values = {{"late_ns", lateness.by()},
                    {"late_count", static_cast<int64_t>(lateness.times)}};
  for (size_t i = 0; i < std::min<size_t>(lateness.late.size(), 64); ++i) {
    add_place(run, lateness, lateness.late[i], finding);
  }
  add_place(run, lateness, lateness.others.front(), finding);
  finding.evidence = {
      arguments_text(finding.operation, operation),
      fmt::format("{} had entered it by {}, and called nothing else until {}, when {} arrived",
                  ranks_text(lateness.others), run_time(run, lateness.from),
                  run_time(run, lateness.until),
                  lateness.late.size() == 1 ? ranks_text(lateness.late)
                                            : "the first of " + ranks_text(lateness.late))};
  add_lines_before(run, lateness, finding);
  finding.advice =
      "look at what that rank did before: data, a checkpoint, an evaluation that only "
      "it does";
  return finding;
}

}  // namespace

std::vector<Finding> find_late_ranks(const Run& run) {
  std::vector<Finding> findings;
  // Beside what is wrong nobody cares who was late before.
  if (!run.waits.hangs.empty() || !run.divergences.empty() || !root_stalls(run).empty()) {
    return findings;
  }
  for (const Lateness& lateness : find_lateness(run)) {
    findings.push_back(finding_about(run, lateness));
  }
  return findings;
}

}  // namespace traintrace
