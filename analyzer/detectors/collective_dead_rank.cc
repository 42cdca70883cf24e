// A rank's process is gone, and left no word about why, while others wait for it.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/hang_cause.h"

namespace traintrace {
namespace {

// The silence that says it was first: of the one that was heard last, so the shortest.
TimeNs silence(const Run& run, const Hang& hang) {
  TimeNs last = 0;
  for (const Waiter& waiter : run.waits.waits[hang.wait].waiters) {
    last = std::max(last, state_of(run, waiter.rank)->last_seen);
  }
  TimeNs gone = run.start;
  for (const Rank rank : hang.roots) {
    gone = std::max(gone, state_of(run, rank)->last_seen);
  }
  return elapsed(gone, last);
}

bool seen_from_here(const Run& run, const Hang& hang) {
  return std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
    const RankState& state = *state_of(run, rank);
    const auto& waiters = run.waits.waits[hang.wait].waiters;
    return (state.ending == Ending::kGone && run.live) ||
           std::all_of(waiters.begin(), waiters.end(), [&](const Waiter& waiter) {
             return run.processes[waiter.process].host == trace_of(run, state).host;
           });
  });
}

Certainty certainty_of(const Run& run, const Hang& hang) {
  if (hang.fate == Fate::kPerhapsDied) {
    return Certainty::kPossible;
  }
  const auto& waiters = run.waits.waits[hang.wait].waiters;
  // Where the dead one had entered too, the others may have done with it.
  const bool stuck =
      !hang.entered || std::any_of(waiters.begin(), waiters.end(),
                                   [](const Waiter& waiter) { return waiter.blocked; });
  return stuck && seen_from_here(run, hang) && !doubts_about(run, hang).any() ? Certainty::kProof
                                                                              : Certainty::kLikely;
}

std::string title_of(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  const TimeNs last = state_of(run, hang.roots.front())->last_seen;
  const std::string died = hang.fate == Fate::kDied
                               ? fmt::format("died at {}", run_time(run, last))
                               : fmt::format("may have died first, at {}", run_time(run, last));
  return fmt::format("{} {}; {} for {} in {}{}", ranks_text(hang.roots), died,
                     waiting_text(run, hang), hang.roots.size() == 1 ? "it" : "them",
                     operation_text(run, wait), behind_text(run, hang));
}

void say_how(const Run& run, const Hang& hang, Finding& finding) {
  for (const Rank rank : hang.roots) {
    const RankState& state = *state_of(run, rank);
    const ProcessTrace& trace = trace_of(run, state);
    finding.evidence.push_back(fmt::format(
        "rank {}, process {} on {}: {}, last sign of life at {}, {} before those that wait for it; "
        "no exit record: killed by a signal, or its machine was lost",
        rank.value, trace.pid, trace.host,
        state.ending == Ending::kGone ? "is gone" : "was heard no more",
        run_time(run, state.last_seen), seconds(silence(run, hang))));
    if (finding.evidence.size() > 24) {
      return;
    }
  }
}

}  // namespace

std::vector<Finding> find_dead_rank(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    const bool dead = hang.fate == Fate::kDied || hang.fate == Fate::kPerhapsDied;
    if (!dead || !hang.divergences.empty() || cause_of(run, hang) != Cause::kNotSeen) {
      continue;
    }
    Finding finding = hang_finding(run, hang, "collective.dead-rank");
    finding.title = title_of(run, hang);
    finding.certainty = certainty_of(run, hang);
    finding.values.emplace_back("silent_ns", silence(run, hang));
    say_how(run, hang, finding);
    if (hang.fate == Fate::kDied) {
      finding.culprits = hang.roots;
      finding.advice =
          "find out what ended it: the launcher's log, the kernel's log (out of memory), the "
          "machine";
    } else {
      finding.advice = "all ended at about the same time: the launcher's log says who was first";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace traintrace
