// A rank ended by an exception, a signal or a failing status, and nobody is blocked by it.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/job_end.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool was_stopped(const RankEnd& failure) {
  return failure.by() == EndedBy::kStop;
}

// Gone by what nobody was told (a status is known only where the parent asked for it in time), at
// the time of that failure as far as is known: by the same cause, maybe.
bool may_have_ended_alike(const Run& run, const RankState& state, const RankEnd& failure) {
  // Where only the kernel says that it is gone: at its last sign of life or soon after.
  const TimeNs ended = std::max(state.life.ended, state.life.last_seen);
  return state.ending == Ending::kGone && trace_of(run, state).wait_status < 0 &&
         elapsed(failure.time, ended) <= kAliveUncertain &&
         elapsed(ended, failure.time) <= kAliveUncertain;
}

// From outside, as a job is that its scheduler or a person ends as a whole: nothing of it has
// failed by itself, and none of its ranks goes on.
bool are_all_ended(const Run& run, const JobEnd& end, const std::vector<RankEnd>& failures) {
  const bool from_outside =
      !end.was_first(*failures.front().state) &&
      std::all_of(failures.begin(), failures.end(), [](const RankEnd& failure) {
        return failure.signal == SIGKILL || was_stopped(failure);
      });
  const auto alike = static_cast<size_t>(std::count_if(
      run.ranks.begin(), run.ranks.end(),
      [&](const RankState& state) { return may_have_ended_alike(run, state, failures.front()); }));
  return from_outside && run.ranks.size() > 1 && failures.size() + alike == run.ranks.size() &&
         elapsed(failures.front().time, failures.back().time) <= kAliveUncertain;
}

// One was asked to stop before any failed by itself, as is known to the moment; all have ended
// since: by handlers of that signal, or killed as their time to stop was over.
bool began_with_a_stop(const Run& run, const JobEnd& end, const std::vector<RankEnd>& failures) {
  return end.was_stopped() || (was_stopped(failures.front()) &&
                               failures.front().state->life.evidence == EndEvidence::kNoted &&
                               failures.size() == run.ranks.size());
}

// What keeps others waiting comes first, and the end of the job is often its consequence.
bool is_explained(const RankEnd& failure, const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    const auto has = [&](const Ranks& ranks) { return contains(ranks, failure.state->rank); };
    return finding.severity == Severity::kError &&
           (!finding.victims.empty() || has(finding.culprits) ||
            std::any_of(finding.sides.begin(), finding.sides.end(), has));
  });
}

// "exited with status 1"
std::string how_text(const RankEnd& failure) {
  if (failure.signal == 0) {
    return fmt::format("exited with status {}", failure.status);
  }
  return "died of " + signal_text(failure.signal);
}

std::optional<CodePlace> last_place(const Run& run, const RankState& state) {
  const auto activity = activity_of(run, state);
  return activity ? user_place(trace_of(run, state), state.rank, activity->stack) : std::nullopt;
}

// Within this time of each other nobody was first, by time alone: what the last sign of life is
// known to, and the clocks of two hosts.
TimeNs together(const Run& run, const RankEnd& one, const RankEnd& other) {
  return kAliveUncertain +
         uncertainty_between(run, trace_of(run, *one.state), trace_of(run, *other.state));
}

// Who gave up at about the time of a crash or a kill did so because of it.
void put_crash_first(const Run& run, std::vector<RankEnd>& own) {
  const auto crash = std::find_if(own.begin(), own.end(), [&](const RankEnd& end) {
    return !may_have_given_up(run, *end.state);
  });
  if (crash != own.end() &&
      elapsed(own.front().time, crash->time) <= together(run, own.front(), *crash)) {
    std::rotate(own.begin(), crash, crash + 1);
  }
}

// How the first is apart from the others in time, those too of which nobody knows how they ended.
bool is_first(const Run& run, const JobEnd& end, const std::vector<RankEnd>& own) {
  const RankEnd& first = own.front();
  const auto is_later = [&](const RankEnd& other) {
    const bool gave_up = may_have_given_up(run, *other.state) && other.by() != EndedBy::kUnknown;
    const TimeNs margin = together(run, first, other);
    return elapsed(first.time, other.time) >
           (gave_up && !may_have_given_up(run, *first.state) ? elapsed(margin, 0) : margin);
  };
  // A crash has no reason in whoever was there after it, however that one ended.
  const bool crashed = first.by() == EndedBy::kItself && !may_have_given_up(run, *first.state);
  const auto outlived = [&](const RankEnd& other) {
    const TimeNs off =
        uncertainty_between(run, trace_of(run, *first.state), trace_of(run, *other.state));
    return crashed && off != kNoCommonClock &&
           elapsed(first.time, other.state->life.last_seen) > off;
  };
  const std::vector<RankEnd> unknown = end.unknown();
  return std::all_of(own.begin() + 1, own.end(), is_later) &&
         std::all_of(unknown.begin(), unknown.end(),
                     [&](const RankEnd& other) { return is_later(other) || outlived(other); });
}

// It aborted while something of NCCL was left to do, as a watchdog does that was told of an error
// of the network.
bool may_be_told(const Run& run, const RankEnd& end) {
  const ProcessTrace& trace = trace_of(run, *end.state);
  return end.signal == SIGABRT &&
         std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [&](const CommunicatorText& text) {
                       return text.size != 1 && !text.recent.empty() &&
                              !finished(trace, text.recent.back());
                     });
}

void add_evidence(const Run& run, const std::vector<RankEnd>& failures, Finding& finding) {
  for (size_t i = 0; i < std::min(failures.size(), kEvidenceLines); ++i) {
    const RankEnd& failure = failures[i];
    const ProcessTrace& trace = trace_of(run, *failure.state);
    finding.evidence.push_back(fmt::format("rank {}, process {} on {}, {} at {}{}",
                                           failure.state->rank.value, trace.pid, trace.host,
                                           how_text(failure), run_time(run, failure.time),
                                           was_stopped(failure) ? ": stopped from outside" : ""));
  }
  if (failures.size() > kEvidenceLines) {
    finding.evidence.push_back(fmt::format("and {} ranks more", failures.size() - kEvidenceLines));
  }
  finding.evidence.push_back(last_call_text(run, failures.front().state->rank));
}

// Of whom and how a process ended may stand in a part that is missing or cannot be read.
bool has_unread_parts(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(),
                     [](const ProcessTrace& trace) { return !trace.errors.empty(); });
}

std::string undecided_text(const std::vector<RankEnd>& own, const std::string& end) {
  Ranks ranks;
  for (const RankEnd& failure : own) {
    insert(ranks, failure.state->rank);
  }
  return own.size() == 1
             ? end + "; culprit undetermined"
             : fmt::format("{} failed within {}: culprit undetermined; {}", ranks_text(ranks),
                           seconds(elapsed(own.front().time, own.back().time)), end);
}

// ", having waited for 3.1 s in ncclAllReduce #6 on communicator dp (4 ranks), which rank 1 had not
// entered"; empty: it had not.
std::string waited_text(const Run& run, const GivenUp* waited) {
  return waited ? fmt::format(", having waited for {} in {}, which {} had not entered",
                              seconds(waited->waited), operation_text(run, waited->wait),
                              ranks_text(waited->missing))
                : "";
}

// Whoever it waited for may be the reason, and is the next to look at.
void add_missing(const Run& run, const RankEnd& first, const GivenUp& waited, Finding& finding) {
  finding.sides.push_back(waited.missing);
  const Rank missing = waited.missing.front();
  if (const auto place = last_place(run, *state_of(run, missing))) {
    finding.where.push_back(*place);
  }
  finding.values.emplace_back("waited_ns", waited.waited);
  finding.evidence.push_back(last_call_text(run, missing));
  finding.evidence.push_back(fmt::format(
      "rank {} may have ended because {} did not come: a time limit of the job, or a watchdog",
      first.state->rank.value, ranks_text(waited.missing)));
  finding.advice =
      fmt::format("look at what {} did instead, and read the error in rank {}'s output",
                  ranks_text(waited.missing), first.state->rank.value);
}

Finding finding_about(const Run& run, const JobEnd& job, const std::vector<RankEnd>& own,
                      const std::vector<RankEnd>& all) {
  const RankEnd& first = own.front();
  Finding finding;
  finding.code = "run.rank-failed";
  finding.severity = Severity::kError;
  finding.root = true;
  finding.sides.emplace_back();
  for (const RankEnd& failure : own) {
    insert(finding.sides.front(), failure.state->rank);
  }
  const auto given_up = run.given_up.find(first.state->rank);
  const GivenUp* const waited = given_up == run.given_up.end() ? nullptr : &given_up->second;
  const bool sure = is_first(run, job, own) && !waited;
  finding.certainty =
      !sure ? Certainty::kPossible
      : own.size() > 1 || !run.missing.empty() || may_be_told(run, first) || has_unread_parts(run)
          ? Certainty::kLikely
          : Certainty::kProof;
  if (sure) {
    finding.culprits = {first.state->rank};
  }
  const auto place = last_place(run, *first.state);
  if (place) {
    finding.where = {*place};
  }
  const std::string end =
      fmt::format("rank {} {} at {}{}", first.state->rank.value, how_text(first),
                  run_time(run, first.time), waited_text(run, waited));
  const std::string last = place ? "; last recorded call at " + place_text(*place) : "";
  finding.title = sure ? fmt::format("{}{}{}", end,
                                     all.size() > 1 && first.state == all.front().state
                                         ? fmt::format(", first of {} ranks that ended", all.size())
                                         : "",
                                     last)
                       : undecided_text(own, end + last);
  finding.values = {first.signal == 0 ? std::pair<std::string, int64_t>("status", first.status)
                                      : std::pair<std::string, int64_t>("signal", first.signal),
                    {"rank_count", static_cast<int64_t>(own.size())}};
  add_evidence(run, all, finding);
  finding.advice =
      "read the error in that rank's own output, the launcher's log and, after a "
      "signal, the kernel's log on its host";
  if (waited) {
    add_missing(run, first, *waited, finding);
  }
  return finding;
}

// Whoever sent these signals is no rank.
Finding finding_about_all(const Run& run, const std::vector<RankEnd>& all) {
  Finding finding;
  finding.code = "run.rank-failed";
  const bool stopped = was_stopped(all.front());
  finding.severity = Severity::kWarning;  // it may have been meant: no rank is at fault
  finding.certainty = Certainty::kPossible;
  finding.root = true;
  finding.sides.emplace_back();
  for (const RankState& state : run.ranks) {
    insert(finding.sides.front(), state.rank);
  }
  finding.title = fmt::format(
      "{} were ended within {}: the job was {} as a whole, from outside; rank {} {} at {}; "
      "culprit undetermined",
      ranks_text(finding.sides.front()), seconds(elapsed(all.front().time, all.back().time)),
      stopped ? "stopped" : "killed", all.front().state->rank.value, how_text(all.front()),
      run_time(run, all.front().time));
  if (run.ranks.size() == 1) {
    finding.title = fmt::format("rank {} was {} from outside: it {} at {}; culprit undetermined",
                                all.front().state->rank.value, stopped ? "stopped" : "killed",
                                how_text(all.front()), run_time(run, all.front().time));
  }
  finding.values = {{"rank_count", static_cast<int64_t>(run.ranks.size())}};
  if (all.front().signal != 0) {
    finding.values.emplace(finding.values.begin(), "signal", all.front().signal);
  }
  add_waits(run, finding);
  add_evidence(run, all, finding);
  finding.advice =
      "look who ended it: the scheduler (time limit, scancel, preemption), the launcher's log, the "
      "kernel's log (out of memory)";
  return finding;
}

}  // namespace

std::vector<Finding> find_failed_ranks(const Run& run, const std::vector<Finding>& findings) {
  const std::vector<RankEnd> all = failures_of(run);
  const JobEnd end(run);
  std::vector<RankEnd> own;
  std::copy_if(all.begin(), all.end(), std::back_inserter(own),
               [](const RankEnd& failure) { return !was_stopped(failure); });
  put_crash_first(run, own);
  if (!all.empty() && (are_all_ended(run, end, all) || began_with_a_stop(run, end, all))) {
    return is_explained(all.front(), findings) ? std::vector<Finding>()
                                               : std::vector{finding_about_all(run, all)};
  }
  if (own.empty() || is_explained(own.front(), findings)) {
    return {};
  }
  return {finding_about(run, end, own, all)};
}

}  // namespace traintrace
