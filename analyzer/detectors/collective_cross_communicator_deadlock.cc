// Ranks that wait for each other: whatever they do, none of them goes on.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/hang_cause.h"

namespace traintrace {
namespace {

bool is_part(const Wait& wait, const Ranks& circle) {
  const auto in_circle = [&](const auto& other) { return contains(circle, other.rank); };
  return std::any_of(wait.waiters.begin(), wait.waiters.end(), in_circle) &&
         std::any_of(wait.awaited.begin(), wait.awaited.end(), in_circle);
}

std::string who_waits_where(const Run& run, const Wait& wait, const Ranks& circle) {
  Ranks waiting;
  Ranks awaited;
  for (const Waiter& waiter : wait.waiters) {
    waiting.push_back(waiter.rank);
  }
  for (const Awaited& other : wait.awaited) {
    if (contains(circle, other.rank)) {
      awaited.push_back(other.rank);
    }
  }
  return fmt::format("{} wait{} in {} for {}", ranks_text(waiting), waiting.size() == 1 ? "s" : "",
                     operation_text(run, wait), ranks_text(awaited));
}

Finding finding_about(const Run& run, const Hang& hang) {
  Finding finding = hang_finding(run, hang, "collective.cross-communicator-deadlock");
  finding.title = fmt::format("{} wait for each other", ranks_text(hang.roots));
  // What streams and progress hide may open a circle.
  finding.certainty = Certainty::kLikely;
  finding.sides.clear();
  finding.evidence.clear();
  for (const Wait& wait : run.waits.waits) {
    if (!is_part(wait, hang.roots)) {
      continue;
    }
    Ranks side;
    for (const Waiter& waiter : wait.waiters) {
      side.push_back(waiter.rank);
    }
    finding.sides.push_back(side);
    const Communicator& communicator = run.communicators[wait.communicator];
    finding.communicators.push_back({communicator.id, communicator.name, communicator.size});
    finding.title +=
        (finding.sides.size() == 1 ? ": " : "; ") + who_waits_where(run, wait, hang.roots);
  }
  // Two orders: the fewer ranks have it wrong.
  if (finding.sides.size() == 2 && finding.sides[0].size() != finding.sides[1].size()) {
    finding.culprits = finding.sides[finding.sides[0].size() < finding.sides[1].size() ? 0 : 1];
    std::erase_if(finding.victims, [&](Rank rank) { return contains(finding.culprits, rank); });
    std::stable_partition(finding.where.begin(), finding.where.end(), [&](const CodePlace& place) {
      return contains(finding.culprits, place.rank);
    });
  }
  for (const Rank rank : hang.roots) {
    finding.evidence.push_back(last_call_text(run, rank));
    if (finding.evidence.size() >= 16) {
      break;
    }
  }
  finding.advice = "let all ranks enter the operations of different communicators in one order";
  return finding;
}

}  // namespace

std::vector<Finding> find_cross_communicator_deadlock(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (hang.fate == Fate::kCircle && hang.divergences.empty() &&
        cause_of(run, hang) == Cause::kNotSeen) {
      findings.push_back(finding_about(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
