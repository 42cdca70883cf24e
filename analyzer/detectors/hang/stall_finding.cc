#include "analyzer/detectors/hang/stall_finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/hang/damage.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/stall_text.h"
#include "analyzer/model/exchanges.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/host_functions.h"

namespace traintrace {
namespace {

const StalledRank* rank_in(const Stall& stall, Rank rank) {
  const auto found = std::find_if(stall.ranks.begin(), stall.ranks.end(),
                                  [&](const StalledRank& other) { return other.rank == rank; });
  return found == stall.ranks.end() ? nullptr : &*found;
}

bool is_whole(const Run& run) {
  return run.missing.empty() && !may_hide_a_rank(run) &&
         std::all_of(run.processes.begin(), run.processes.end(), [](const ProcessTrace& trace) {
           return !are_calls_damaged(trace) &&
                  std::none_of(trace.losses.begin(), trace.losses.end(), [](const LossText& loss) {
                    return loss.count > 0 && loss.severity == "warning";
                  });
         });
}

Certainty certainty_of(const Run& run, const Stall& stall) {
  if (uneven_exchange(run, stall)) {  // whoever else is missing is no member
    return Certainty::kProof;
  }
  if (!stall.known) {
    return Certainty::kPossible;
  }
  const bool functions = stall.kind == StallKind::kBlocked &&
                         std::all_of(stall.suspects.begin(), stall.suspects.end(), [&](Rank rank) {
                           const StalledRank& own = *rank_in(stall, rank);
                           return function_before(run, own.process, own.operation) != nullptr;
                         });
  return functions && is_whole(run) ? Certainty::kProof : Certainty::kLikely;
}

// Where the suspects' streams stand, or what they wait in; then where somebody called.
void add_places(const Run& run, const RootStall& root, Finding& finding) {
  const Stall& stall = root.stall;
  for (const Rank rank : finding.culprits) {
    const StalledRank& own = *rank_in(stall, rank);
    const ProcessTrace& trace = run.processes[own.process];
    const HostFunctionText* function = function_before(run, own.process, own.operation);
    const auto activity = activity_of(run, *state_of(run, rank));
    auto place = user_place(trace, rank,
                            function != nullptr ? function->stack
                            : activity          ? activity->stack
                                                : 0);
    place = place ? place : user_place(trace, rank, own.operation.stack);
    if (place) {
      finding.where.push_back(*place);
    }
  }
  if (root.hang != nullptr) {
    const Waiter& waiter = run.waits.waits[root.hang->wait].waiters.front();
    if (const auto place = user_place(run.processes[waiter.process], waiter.rank, waiter.stack)) {
      finding.where.push_back(*place);
      return;
    }
  }
  for (const StalledRank& rank : stall.ranks) {
    const auto place = user_place(run.processes[rank.process], rank.rank, rank.operation.stack);
    if (place && !contains(finding.culprits, rank.rank)) {
      finding.where.push_back(*place);
      break;
    }
  }
}

void add_ranks(const RootStall& root, Finding& finding) {
  const Stall& stall = root.stall;
  // Of a majority nobody can be said to be the odd one out; who is in a function of its own, is.
  const bool blame =
      stall.known && stall.kind != StallKind::kTransport && stall.kind != StallKind::kNoRoom;
  finding.culprits = blame ? stall.suspects : Ranks{};
  for (const StalledRank& rank : stall.ranks) {
    if (!contains(finding.culprits, rank.rank)) {
      insert(finding.victims, rank.rank);
    }
  }
  for (const Rank rank : root.victims) {
    if (!contains(finding.culprits, rank)) {
      insert(finding.victims, rank);
    }
  }
  if (blame) {
    finding.sides = {finding.culprits};
    Ranks others = finding.victims;
    for (const Rank rank : stall.finished) {
      insert(others, rank);
    }
    finding.sides.push_back(others);
  }
}

Finding finding_about(const Run& run, const RootStall& root, std::string_view code) {
  const Stall& stall = root.stall;
  const Communicator& communicator = run.communicators[stall.communicator];
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  finding.certainty = certainty_of(run, stall);
  finding.root = true;
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  if (stall.sequence != 0) {
    finding.sequence = stall.sequence;
  }
  finding.operation = stall.function;
  finding.values = {{"waited_ns", stall.waited}};
  if (const auto bytes = bytes_of(stall.ranks.front().operation)) {
    finding.values.emplace_back("bytes", static_cast<int64_t>(*bytes));
  }
  add_ranks(root, finding);
  add_places(run, root, finding);
  finding.title = stall_title(run, root);
  finding.evidence = stall_evidence(run, root);
  finding.advice = stall_advice(run, stall, is_given_up(root));
  return finding;
}

}  // namespace

bool is_given_up(const RootStall& root) {
  return root.hang == nullptr && !root.stall.known &&
         std::any_of(root.stall.ranks.begin(), root.stall.ranks.end(),
                     [](const StalledRank& rank) { return rank.aborted; });
}

bool is_in_order(const Run& run, const Stall& stall) {
  std::optional<bool> first;  // whether the operation came before the one that runs
  for (const StalledRank& rank : stall.ranks) {
    const auto suspect =
        contains(stall.suspects, rank.rank) ? holder_of(run, stall, rank) : std::nullopt;
    if (!suspect) {
      continue;
    }
    for (const StalledRank& other : stall.ranks) {
      const Member* member = member_of(run.communicators[suspect->communicator], other.rank);
      const OperationText* operation =
          member == nullptr ? nullptr
                            : collective_at(text_of(run, *member), suspect->operation.sequence);
      if (operation == nullptr) {
        continue;
      }
      const bool before = other.operation.enter < operation->enter;
      if (first && *first != before) {
        return false;
      }
      first = before;
    }
  }
  return first.has_value();
}

std::vector<Finding> find_stalled(const Run& run, std::string_view code,
                                  const std::function<bool(const RootStall&)>& is_this) {
  std::vector<Finding> findings;
  for (const RootStall& root : root_stalls(run)) {
    if (is_this(root)) {
      findings.push_back(finding_about(run, root, code));
    }
  }
  return findings;
}

}  // namespace traintrace
