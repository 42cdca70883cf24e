// The check that no waiting rank is forgotten: each is a victim of something that was found, waits
// for one that moves, or is counted here.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/judge/patience.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/model/waiting/pace.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/model/waiting/wait_search.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Those that something found says anything of, above severity info.
Ranks explained_by(const std::vector<Finding>& findings) {
  Ranks ranks;
  const auto add = [&](const Ranks& more) {
    for (const Rank rank : more) {
      insert(ranks, rank);
    }
  };
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kInfo) {
      add(finding.culprits);
      add(finding.victims);
      for (const Ranks& side : finding.sides) {
        add(side);
      }
    }
  }
  return ranks;
}

// Four times as long as a hang takes, and as the job took for anything before: what is a moment
// short of another finding is no riddle.  With nothing to compare, as long as PyTorch lets a
// collective take.
TimeNs patience_for(const Run& run, Rank rank, TimeNs since) {
  TimeNs pace = 0;
  for (const Communicator& communicator : run.communicators) {
    if (communicator.size != 1 && member_of(communicator, rank) != nullptr) {
      pace = std::max(pace, pace_of(run, communicator, since));
    }
  }
  return pace == 0 ? kWorkingPatience
                   : std::max(std::min(run.hang_after, kWorkingPatience),
                              std::min(pace, kWorkingPatience)) *
                         kPaces;
}

// Something of NCCL is left to do for its GPU.  Who only waits to leave, or for work of its own,
// waits for no rank.
bool has_part_in_something(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  for (const Communicator& communicator : run.communicators) {
    const Member* const member = member_of(communicator, state.rank);
    if (member == nullptr || communicator.size == 1) {
      continue;
    }
    const std::vector<OperationText>& recent = text_of(run, *member).recent;
    if (std::any_of(recent.begin(), recent.end(),
                    [&](const auto& operation) { return !finished(trace, operation); })) {
      return true;
    }
  }
  return false;
}

// Since when what its dump says to be in flight is, if that has passed its own time limit (where it
// says none, the least), or somebody asked about shorter waits, or nothing says how long it has
// been: it is not known whether all that came before is kept, and so not for whom it waits.
TimeNs overdue_since(const Run& run, const ProcessTrace& trace) {
  const auto made = trace.facts.find("dump-time");
  TimeNs since = 0;
  for (const CommunicatorText& text : trace.communicators) {
    for (const OperationText& operation : text.recent) {
      if (made != trace.facts.end() && certainly_unfinished(gpu_state(trace, operation))) {
        since = since == 0 ? operation.enter : std::min(since, operation.enter);
      }
    }
  }
  const TimeNs limit = trace.first_limit != 0 ? trace.first_limit : since + kLeastLimit;
  const bool passed = since != 0 && (made->second == "assumed" || run.hang_after != kHangAfter ||
                                     elapsed(limit, trace.last_alive) >= -kLimitRounded);
  return passed ? since : 0;
}

// Dumps that do not say when they were written show a job that stands still only if every rank has
// something in flight.
bool may_stand_still(const Run& run) {
  return are_dumps_dated(run) ||
         std::all_of(run.processes.begin(), run.processes.end(),
                     [&](const ProcessTrace& trace) { return overdue_since(run, trace) != 0; });
}

// How long it has been inside a call that waits, or its GPU said so, or has had in flight what is
// overdue, if that is longer than it may.
TimeNs blocked_for(const Run& run, const RankState& state, TimeNs overdue) {
  TimeNs longest = 0;
  const auto consider = [&](TimeNs since, TimeNs until) {
    const TimeNs waited = since == 0 ? 0 : elapsed(since, until);
    if (waited >= run.hang_after && waited >= patience_for(run, state.rank, since)) {
      longest = std::max(longest, waited);
    }
  };
  consider(blocked_in_nccl(run, state), known_until(run, state));
  consider(blocked_in_cuda(run, state), known_until(run, state));
  consider(overdue, state.last_seen);
  for (const Wait& wait : run.waits.waits) {
    for (const Waiter& waiter : wait.waiters) {
      if (waiter.rank == state.rank && (waiter.blocked || waiter.unfinished)) {
        consider(waiter.since, waiter.until);
      }
    }
  }
  return longest;
}

// A function that the job put on a stream of its runs, or did a short while ago.
bool is_at_work_itself(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  const TimeNs until = known_until(run, state);
  return std::any_of(
      trace.host_functions.begin(), trace.host_functions.end(),
      [&](const HostFunctionText& function) {
        return function.entered != 0 &&
               (function.left == 0 || elapsed(function.left, until) < run.hang_after);
      });
}

// It has called something a short while ago; if it is in there still, then for work of its own.
// Or somebody saw that its host goes on.
bool is_moving(const Run& run, const RankState& state) {
  if (is_seen_to_move(run, state)) {
    return true;
  }
  const auto activity = activity_of(run, state);
  return activity && (!activity->open || activity->kind == "sync" || activity->kind == "copy") &&
         elapsed(activity->time, known_until(run, state)) < run.hang_after;
}

// All that wait for a rank that moves, directly or not: they will go on.
Ranks waiting_for_movers(const Run& run) {
  Ranks movers;
  for (const RankState& state : run.ranks) {
    if (is_moving(run, state)) {
      movers.push_back(state.rank);
    }
  }
  return WaitSearch(run.waits.waits).victims_of(movers);
}

// When the last of those that are known to have entered it came.
TimeNs last_arrival(const Run& run, const Communicator& communicator, uint64_t sequence) {
  TimeNs last = 0;
  for (const Member& member : communicator.members) {
    if (const OperationText* const operation = collective_at(text_of(run, member), sequence)) {
      last = std::max(last, operation->enter);
    }
  }
  return last;
}

// What it waits in is a collective to which others came a moment ago: the job moves.
bool has_company_just_now(const Run& run, const RankState& state) {
  return state.ending == Ending::kRunning &&
         std::any_of(run.communicators.begin(), run.communicators.end(),
                     [&](const Communicator& communicator) {
                       const Member* const member = member_of(communicator, state.rank);
                       if (member == nullptr || communicator.size == 1) {
                         return false;
                       }
                       const ProcessTrace& trace = run.processes[member->process];
                       const OperationText* const last = collective_at(
                           text_of(run, *member), sequence_reached(trace, text_of(run, *member)));
                       return last != nullptr && !finished(trace, *last) &&
                              elapsed(last_arrival(run, communicator, last->sequence),
                                      known_until(run, state)) < run.hang_after;
                     });
}

std::map<Rank, TimeNs> unexplained_ranks(const Run& run, const std::vector<Finding>& findings) {
  const Ranks explained = explained_by(findings);
  const Ranks patient = waiting_for_movers(run);
  const bool still = may_stand_still(run);
  std::map<Rank, TimeNs> found;
  for (const RankState& state : run.ranks) {
    if (contains(explained, state.rank) || contains(patient, state.rank) ||
        exited_normally(run, state) || is_at_work_itself(run, state) ||
        has_company_just_now(run, state) || !has_part_in_something(run, state)) {
      continue;
    }
    const TimeNs overdue = still ? overdue_since(run, trace_of(run, state)) : 0;
    if (const TimeNs waited = blocked_for(run, state, overdue); waited > 0) {
      found[state.rank] = waited;
    }
  }
  return found;
}

// Blocked in a communicator of which a finding says that something is wrong there: one more that
// waits for it, if that is not seen call by call.
bool joins_victims(const Run& run, Rank rank, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (finding.severity != Severity::kError || finding.victims.empty() || !finding.communicator) {
      continue;
    }
    for (const Communicator& communicator : run.communicators) {
      if (communicator.id == finding.communicator->id && member_of(communicator, rank) != nullptr) {
        insert(finding.victims, rank);
        return true;
      }
    }
  }
  return false;
}

// Its dump keeps nothing that came before what is in flight there.
bool may_lack_cause(const Run& run, Rank rank) {
  const ProcessTrace& trace = trace_of(run, *state_of(run, rank));
  const TimeNs since = overdue_since(run, trace);
  return since != 0 && trace.facts.contains("entries-overwritten") &&
         std::all_of(trace.communicators.begin(), trace.communicators.end(),
                     [&](const CommunicatorText& text) {
                       return text.recent.empty() || text.recent.front().enter >= since;
                     });
}

void add_evidence(const Run& run, const std::map<Rank, TimeNs>& ranks, Finding& finding) {
  Ranks all;
  for (const auto& [rank, waited] : ranks) {
    all.push_back(rank);
  }
  add_lines(last_call_lines(run, all), finding.evidence);
  std::vector<const Wait*> theirs;
  for (const Wait& wait : run.waits.waits) {
    if (std::any_of(wait.waiters.begin(), wait.waiters.end(),
                    [&](const Waiter& waiter) { return ranks.contains(waiter.rank); })) {
      theirs.push_back(&wait);
    }
  }
  add_lines(wait_lines(run, theirs), finding.evidence);
}

// Where ranks wait for some that may be at work: that most wait in.
const Wait* greatest_moment(const Run& run, const Ranks& waiting) {
  const Wait* greatest = nullptr;
  for (const Wait& wait : run.waits.within_limits) {
    const bool theirs =
        std::any_of(wait.waiters.begin(), wait.waiters.end(),
                    [&](const Waiter& waiter) { return contains(waiting, waiter.rank); });
    if (theirs && (greatest == nullptr || wait.waiters.size() > greatest->waiters.size())) {
      greatest = &wait;
    }
  }
  return greatest;
}

// Who is waited for there: those known not to have entered it, else those without a trace, else
// those held up in it.
Ranks awaited_in(const Run& run, const Wait& wait) {
  Ranks missing;
  Ranks untraced;
  Ranks inside;
  for (const Awaited& awaited : wait.awaited) {
    const bool is_traced = state_of(run, awaited.rank) != nullptr;
    insert(awaited.entered ? inside : is_traced ? missing : untraced, awaited.rank);
  }
  return !missing.empty() ? missing : !untraced.empty() ? untraced : inside;
}

// "has not entered"
std::string lack_text(const Run& run, const Wait& wait, const Ranks& awaited) {
  if (state_of(run, awaited.front()) == nullptr) {
    return fmt::format("{} and may not have entered", no_trace_text(run, awaited));
  }
  const bool inside = std::any_of(
      wait.awaited.begin(), wait.awaited.end(),
      [&](const Awaited& other) { return other.rank == awaited.front() && other.entered; });
  return fmt::format("{} not {}", awaited.size() == 1 ? "has" : "have",
                     inside                            ? "completed"
                     : wait.kind == WaitKind::kReceive ? "sent what is awaited by"
                     : wait.kind == WaitKind::kSend    ? "received what is sent by"
                                                       : "entered");
}

// "rank 0 has not entered ncclAllReduce #44 on communicator dp (16 ranks), and ranks 1-15 wait"
std::string moment_text(const Run& run, const Wait& wait) {
  const Ranks awaited = awaited_in(run, wait);
  Ranks waiting;
  for (const Waiter& waiter : wait.waiters) {
    insert(waiting, waiter.rank);
  }
  return fmt::format("{} {} {}, and {} wait{}", ranks_text(awaited), lack_text(run, wait, awaited),
                     operation_text(run, wait), ranks_text(waiting),
                     waiting.size() == 1 ? "s" : "");
}

// What is known of it, and why nobody is blamed.
std::string moment_title(const Run& run, const Wait& wait) {
  return moment_text(run, wait) +
         (are_dumps_dated(run)
              ? "; no time limit is recorded, so this may be work that takes so long, as a "
                "checkpoint; no culprit"
              : "; when the dumps were written is not known, so this may be a moment of a running "
                "job; no culprit");
}

void add_moments(const Run& run, const Wait* told, Finding& finding) {
  for (const Wait& wait : run.waits.within_limits) {
    if (&wait != told && finding.evidence.size() < 3 * kEvidenceLines) {
      finding.evidence.push_back(moment_text(run, wait));
    }
  }
  if (run.waits.undated || !are_dumps_dated(run)) {
    finding.evidence.emplace_back(
        "nothing says when these dumps were written, so that a slow step looks the same as a hang: "
        "copy dumps with their times (cp -p, rsync -t), or say that it hung (--hang-after=6s)");
  }
}

const char* advice_for(const Run& run, const Wait* moment) {
  return run.live ? "see what the threads of these ranks do now: `traintrace attach`"
         : moment != nullptr
             ? "if the job hung, find out what the ranks that have not come do: the stacks of "
               "their "
               "processes (traintrace attach, py-spy)"
             : "record what GPUs complete (TRAINTRACE_GPU_PROGRESS=marks), and use `traintrace "
               "attach` while it hangs";
}

Finding finding_about(const Run& run, const std::map<Rank, TimeNs>& ranks) {
  Finding finding;
  finding.code = "run.unexplained";
  finding.severity = Severity::kWarning;
  finding.certainty = Certainty::kPossible;
  finding.root = true;
  TimeNs longest = 0;
  for (const auto& [rank, waited] : ranks) {
    finding.victims.push_back(rank);
    longest = std::max(longest, waited);
  }
  finding.sides = {finding.victims};
  const Wait* const moment = greatest_moment(run, finding.victims);
  if (moment != nullptr) {
    finding.sides.insert(finding.sides.begin(), awaited_in(run, *moment));
    finding.title = moment_title(run, *moment);
  } else {
    finding.title =
        are_dumps_dated(run)
            ? fmt::format(
                  "{} {} been blocked for {}, and nothing that was recorded says why; culprit "
                  "undetermined",
                  ranks_text(finding.victims), ranks.size() == 1 ? "has" : "have", seconds(longest))
            : fmt::format(
                  "{} wait{}, and nothing that was recorded says why; when the dumps were written "
                  "is not known, so this may be a moment of a running job; no culprit",
                  ranks_text(finding.victims), ranks.size() == 1 ? "s" : "");
  }
  add_evidence(run, ranks, finding);
  if (std::any_of(ranks.begin(), ranks.end(),
                  [&](const auto& entry) { return may_lack_cause(run, entry.first); })) {
    finding.evidence.emplace_back(
        "the oldest that dumps keep is in flight: what it waits for may be older, and overwritten; "
        "TORCH_NCCL_TRACE_BUFFER_SIZE says how many entries they keep");
  }
  add_moments(run, moment, finding);
  finding.values = {{"waited_ns", longest}, {"rank_count", static_cast<int64_t>(ranks.size())}};
  finding.advice = advice_for(run, moment);
  return finding;
}

}  // namespace

void account_for_waiting(const Run& run, std::vector<Finding>& findings) {
  std::map<Rank, TimeNs> ranks = unexplained_ranks(run, findings);
  std::erase_if(ranks,
                [&](const auto& entry) { return joins_victims(run, entry.first, findings); });
  if (!ranks.empty()) {
    findings.push_back(finding_about(run, ranks));
  }
}

}  // namespace traintrace
