#include "analyzer/detectors/hang/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// The first of `sides` has not entered the operation in which the second waits.
bool says_not_entered(const Finding& finding) {
  return finding.code == "collective.missing-rank" && finding.communicator && finding.sequence &&
         !finding.sides.empty();
}

bool has_entered(const Run& run, const Communicator& communicator, uint64_t sequence, Rank rank) {
  const Member* const member = member_of(communicator, rank);
  return member != nullptr &&
         sequence_reached(run.processes[member->process], text_of(run, *member)) >= sequence;
}

// While somebody waited for it there.
bool shows(const Run& run, CommunicatorId id, uint64_t sequence, Rank rank) {
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (run.communicators[i].id != id || !has_entered(run, run.communicators[i], sequence, rank)) {
      continue;
    }
    return std::none_of(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& wait) {
      return wait.communicator == i && wait.sequence == sequence && came_too_late(run, wait, rank);
    });
  }
  return false;
}

}  // namespace

bool came_too_late(const Run& run, const Wait& wait, Rank rank) {
  const Member* const member = member_of(run.communicators[wait.communicator], rank);
  const OperationText* const call =
      member == nullptr ? nullptr : collective_at(text_of(run, *member), wait.sequence);
  return call != nullptr && wait.kind == WaitKind::kCollective &&
         std::all_of(wait.waiters.begin(), wait.waiters.end(),
                     [&](const Waiter& waiter) { return call->enter > waiter.until; });
}

void withdraw_contradicted(const Run& run, std::vector<Finding>& findings) {
  std::string contradicted;
  std::erase_if(findings, [&](const Finding& finding) {
    const bool wrong =
        says_not_entered(finding) &&
        std::any_of(finding.sides.front().begin(), finding.sides.front().end(), [&](Rank rank) {
          return shows(run, finding.communicator->id, *finding.sequence, rank);
        });
    if (wrong) {
      contradicted = fmt::format("withdrawn, as the records show the contrary: {}", finding.title);
    }
    return wrong;
  });
  if (!contradicted.empty()) {
    throw std::logic_error(contradicted);
  }
}

}  // namespace traintrace
