#include "analyzer/detectors/circle_finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang_finding.h"
#include "analyzer/model/circles.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/hang_cause.h"

namespace traintrace {
namespace {

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

void add_parts(const Run& run, const Hang& circle, Finding& finding) {
  for (const Wait& wait : run.waits.waits) {
    if (!is_part(wait, circle.roots)) {
      continue;
    }
    Ranks side;
    for (const Waiter& waiter : wait.waiters) {
      side.push_back(waiter.rank);
    }
    finding.sides.push_back(side);
    const Communicator& communicator = run.communicators[wait.communicator];
    const bool known = std::any_of(finding.communicators.begin(), finding.communicators.end(),
                                   [&](const auto& other) { return other.id == communicator.id; });
    if (!known) {
      finding.communicators.push_back({communicator.id, communicator.name, communicator.size});
    }
    finding.title +=
        (finding.sides.size() == 1 ? ": " : "; ") + who_waits_where(run, wait, circle.roots);
  }
}

// Two orders: the fewer ranks have it wrong.
void blame_minority(Finding& finding) {
  if (finding.sides.size() != 2 || finding.sides[0].size() == finding.sides[1].size()) {
    return;
  }
  finding.culprits = finding.sides[finding.sides[0].size() < finding.sides[1].size() ? 0 : 1];
  std::erase_if(finding.victims, [&](Rank rank) { return contains(finding.culprits, rank); });
  std::stable_partition(finding.where.begin(), finding.where.end(), [&](const CodePlace& place) {
    return contains(finding.culprits, place.rank);
  });
}

}  // namespace

Finding circle_finding(const Run& run, const Hang& circle, std::string_view code) {
  constexpr size_t kMostLines = 16;
  Finding finding = hang_finding(run, circle, code);
  finding.title = fmt::format("{} wait for each other", ranks_text(circle.roots));
  finding.sides.clear();
  finding.evidence.clear();
  add_parts(run, circle, finding);
  blame_minority(finding);
  for (size_t i = 0; i < std::min(circle.roots.size(), kMostLines); ++i) {
    finding.evidence.push_back(last_call_text(run, circle.roots[i]));
  }
  return finding;
}

bool is_circle(const Run& run, const Hang& hang) {
  return hang.fate == Fate::kCircle && hang.divergences.empty() &&
         cause_of(run, hang) == Cause::kNotSeen;
}

}  // namespace traintrace
