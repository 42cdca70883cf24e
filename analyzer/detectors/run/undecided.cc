#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/detectors/run/summary.h"
#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// "which rank 2 had not entered (of ranks 4-7 it is not known)"
std::string awaited_text(const Run& run, const Wait& wait) {
  Ranks missing;
  Ranks inside;
  Ranks untraced;
  for (const Awaited& awaited : wait.awaited) {
    const bool is_traced = state_of(run, awaited.rank) != nullptr;
    insert(awaited.entered ? inside : is_traced ? missing : untraced, awaited.rank);
  }
  if (!untraced.empty() && missing.empty()) {
    return fmt::format("which {} ({}) may not have entered", ranks_text(untraced),
                       no_trace_text(run, untraced));
  }
  return fmt::format(
      "which {} had not {}{}", ranks_text(missing.empty() ? inside : missing),
      missing.empty() ? "completed" : "entered",
      untraced.empty() ? "" : fmt::format(" (of {} it is not known)", ranks_text(untraced)));
}

// "ranks 0,1,3 were in ncclAllReduce #25 on communicator dp (4 ranks), which rank 2 had not
// entered"
std::string open_wait_text(const Run& run, const Wait& wait) {
  Ranks waiting;
  for (const Waiter& waiter : wait.waiters) {
    insert(waiting, waiter.rank);
  }
  return fmt::format("{} {} in {}, {}", ranks_text(waiting), waiting.size() == 1 ? "was" : "were",
                     operation_text(run, wait), awaited_text(run, wait));
}

}  // namespace

std::optional<Finding> undecided(const Run& run) {
  const auto longest_of = [](const Wait& wait) {
    TimeNs longest = 0;
    for (const Waiter& waiter : wait.waiters) {
      longest = std::max(longest, elapsed(waiter.since, waiter.until));
    }
    return longest;
  };
  std::vector<const Wait*> waits;
  for (const Wait& wait : run.waits.within_limits) {
    if (!wait.awaited.empty() && longest_of(wait) >= kHangAfter) {
      waits.push_back(&wait);
    }
  }
  if (waits.empty()) {
    return std::nullopt;
  }
  // First what others wait behind: for ranks that wait for nobody.
  const auto waits_itself = [&](Rank rank) {
    return std::any_of(waits.begin(), waits.end(), [&](const Wait* wait) {
      return std::any_of(wait->waiters.begin(), wait->waiters.end(),
                         [&](const Waiter& waiter) { return waiter.rank == rank; });
    });
  };
  const auto is_behind = [&](const Wait* wait) {
    return std::all_of(wait->awaited.begin(), wait->awaited.end(),
                       [&](const Awaited& awaited) { return waits_itself(awaited.rank); });
  };
  std::stable_sort(waits.begin(), waits.end(), [&](const Wait* a, const Wait* b) {
    return std::tuple(is_behind(a), b->waiters.size()) <
           std::tuple(is_behind(b), a->waiters.size());
  });
  Finding finding;
  finding.code = "run.in-progress";
  finding.certainty = Certainty::kPossible;
  const TimeNs longest = longest_of(*waits.front());
  finding.title = fmt::format(
      "cannot be told whether the run still moves: {}{}", open_wait_text(run, *waits.front()),
      are_dumps_dated(run)
          ? fmt::format(", for up to {}; no time limit had passed", seconds(longest))
          : "; when the dumps were written is not known");
  for (size_t i = 0; i < std::min(waits.size(), kEvidenceLines); ++i) {
    finding.evidence.push_back(fmt::format("{}, for up to {}", open_wait_text(run, *waits[i]),
                                           seconds(longest_of(*waits[i]))));
    finding.evidence.push_back(last_call_text(run, waits[i]->awaited.front().rank));
  }
  TimeNs limit = 0;
  for (const ProcessTrace& trace : run.processes) {
    limit = limit == 0 || (trace.first_limit != 0 && trace.first_limit < limit) ? trace.first_limit
                                                                                : limit;
  }
  if (limit != 0) {
    finding.evidence.push_back("the first time limit of these operations ends at " +
                               run_time(run, limit));
  }
  finding.evidence.emplace_back(
      "these times go up to when the dumps were written, by their files or their newest entries");
  finding.values = {{"waited_ns", longest}};
  finding.advice =
      "dump again: a run that moves has gone on; to judge waits shorter than the time limit as a "
      "hang, use --hang-after";
  return finding;
}

}  // namespace traintrace
