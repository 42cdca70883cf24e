// run.healthy and run.in-progress: what is said of a run in which nothing wrong was found.  Where
// ranks are not among the traces it is their absence.
#include "analyzer/detectors/run/summary.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/rank_lines.h"
#include "analyzer/detectors/hang/stall_text.h"
#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/judge/patience.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/divergence/older_messages.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/model/waiting/host_functions.h"
#include "analyzer/model/waiting/pace.h"
#include "analyzer/model/waiting/stalls.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

uint64_t collectives_of(const Run& run, const Communicator& communicator, bool most) {
  uint64_t result = text_of(run, communicator.members.front()).collectives;
  for (const Member& member : communicator.members) {
    const uint64_t own = text_of(run, member).collectives;
    result = most ? std::max(result, own) : std::min(result, own);
  }
  return result;
}

// Nothing that rests on what is not there can be sure.
bool is_complete(const Run& run) {
  const auto whole = [](const ProcessTrace& trace) {
    return trace.errors.empty() &&
           std::none_of(trace.losses.begin(), trace.losses.end(), [](const LossText& loss) {
             return loss.count > 0 && loss.severity == "warning";
           });
  };
  return run.unreadable.empty() && std::all_of(run.processes.begin(), run.processes.end(), whole);
}

// What the other members called can be compared.
bool is_whole(const Communicator& communicator) {
  return communicator.size == static_cast<int>(communicator.members.size());
}

std::string counts_text(size_t communicators, bool equal, size_t unknown) {
  if (communicators == 0) {
    return "";
  }
  if (!equal) {
    return "; the numbers of collectives differ, and no rank waited for the rest";
  }
  if (unknown != 0) {
    return fmt::format("; of {} communicator{} it is not recorded who else called how often",
                       unknown, unknown == 1 ? "" : "s");
  }
  return ", with equal numbers of collectives";
}

Finding healthy(const Run& run) {
  Finding finding;
  finding.code = "run.healthy";
  uint64_t total = 0;
  size_t unknown = 0;
  bool equal = true;
  for (const Communicator& communicator : run.communicators) {
    const uint64_t count = collectives_of(run, communicator, true);
    total += count;
    equal = equal && count == collectives_of(run, communicator, false);
    unknown += is_whole(communicator) ? 0 : 1;
    if (finding.evidence.size() < kEvidenceLines) {
      finding.evidence.push_back(
          fmt::format("communicator {}: {} collectives",
                      communicator.named ? communicator.name : label_of(run, communicator), count));
    }
  }
  const bool sure = equal && unknown == 0 && is_complete(run);
  finding.certainty = sure ? Certainty::kProof : Certainty::kLikely;
  finding.title = fmt::format("nothing is wrong: {} rank{} ended normally{}", run.ranks.size(),
                              run.ranks.size() == 1 ? "" : "s",
                              counts_text(run.communicators.size(), equal, unknown));
  finding.values = {{"collective_count", static_cast<int64_t>(total)}};
  return finding;
}

struct Sides {
  Ranks waiting, awaited;
  TimeNs waited = 0;  // at most
};

Sides sides_of(const Wait& wait) {
  Sides sides;
  for (const Waiter& waiter : wait.waiters) {
    sides.waiting.push_back(waiter.rank);
    sides.waited = std::max(sides.waited, elapsed(waiter.since, waiter.until));
  }
  for (const Awaited& other : wait.awaited) {
    sides.awaited.push_back(other.rank);
  }
  return sides;
}

}  // namespace

TimeNs add_waits(const Run& run, Finding& finding) {
  TimeNs longest = 0;
  for (const Wait& wait : run.waits.waits) {
    const auto [waiting, awaited, waited] = sides_of(wait);
    longest = std::max(longest, waited);
    if (finding.evidence.size() < kEvidenceLines) {
      finding.evidence.push_back(fmt::format(
          "{} wait{} in {} for {}, for {}", ranks_text(waiting), waiting.size() == 1 ? "s" : "",
          operation_text(run, wait), ranks_text(awaited), seconds(waited)));
      finding.evidence.push_back(last_call_text(run, awaited.front()));
    }
  }
  return longest;
}

namespace {

// "ended normally"; empty: nothing says that it ended.
std::string end_text(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  if (exited_normally(run, state)) {
    return "ended normally";
  }
  if (state.ending == Ending::kExited) {
    return fmt::format("exited with status {}", trace.exit_status);
  }
  if (!has_ended(state)) {
    return "";
  }
  return trace.wait_status >= 0 && WIFSIGNALED(trace.wait_status)
             ? "died of " + signal_text(WTERMSIG(trace.wait_status))
             : "ended without an exit record, as by a signal";
}

// From the last call of any rank, or the last time that an operation was seen to be complete, to
// where the records end.  0: some rank has called nothing that is known, or nothing says when they
// end.
TimeNs silence(const Run& run) {
  if (!are_dumps_dated(run)) {
    return 0;
  }
  TimeNs last = 0;
  TimeNs end = 0;
  for (const RankState& state : run.ranks) {
    const auto activity = activity_of(run, state);
    if (!activity || activity->open) {
      return 0;
    }
    last = std::max(last, activity->time);
    end = std::max(end, state.last_seen);
    for (const CommunicatorText& communicator : trace_of(run, state).communicators) {
      for (const OperationText& operation : communicator.recent) {
        last = std::max(last, operation.completed);
      }
    }
  }
  return elapsed(last, end);
}

// How far it has come: "the run goes on", or "ranks 0-2 ended normally, rank 3 died of signal 9
// (Killed)".
std::string state_text(const Run& run) {
  std::vector<std::pair<std::string, Ranks>> ends;
  Ranks silent;
  for (const RankState& state : run.ranks) {
    const std::string end = end_text(run, state);
    const auto known = std::find_if(ends.begin(), ends.end(),
                                    [&](const auto& other) { return other.first == end; });
    if (end.empty()) {
      silent.push_back(state.rank);
    } else if (known != ends.end()) {
      known->second.push_back(state.rank);
    } else {
      ends.emplace_back(end, Ranks{state.rank});
    }
  }
  if (ends.empty()) {
    const TimeNs silent_for = silence(run);
    const bool is_silent = silent_for >= run.hang_after;
    return is_silent && run.live
               ? fmt::format("no rank has called CUDA or NCCL for {}", seconds(silent_for))
           : is_silent ? fmt::format("nothing was called in the last {} of the records",
                                     seconds(silent_for))
           : run.live  ? "the run goes on"
                       : "the run was going on when its records end";
  }
  if (!silent.empty()) {
    ends.emplace_back(run.live ? "did not yet" : "left no exit record", silent);
  }
  std::string text;
  for (const auto& [end, ranks] : ends) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ranks_text(ranks), end);
  }
  const TimeNs silent_for = silence(run);
  if (silent_for >= run.hang_after && silent.empty() && !run.live) {
    text += fmt::format(", {} after the last call of any", seconds(silent_for));
  }
  return text;
}

bool is_known_to_wait(const Run& run, Rank rank) {
  return std::any_of(run.waits.waits.begin(), run.waits.waits.end(), [&](const Wait& wait) {
    return std::any_of(wait.waiters.begin(), wait.waiters.end(),
                       [&](const Waiter& waiter) { return waiter.rank == rank; });
  });
}

// Inside one call for as long as a hang takes, and not for a rank that is known.
Ranks stuck_in_a_call(const Run& run) {
  Ranks ranks;
  for (const RankState& state : run.ranks) {
    if (is_known_to_wait(run, state.rank)) {
      continue;
    }
    for (const TimeNs since : {blocked_in_nccl(run, state), blocked_in_cuda(run, state)}) {
      if (since != 0 && elapsed(since, state.last_seen) >= run.hang_after) {
        insert(ranks, state.rank);
      }
    }
  }
  return ranks;
}

bool is_silent(const Run& run, const RankState& state) {
  return state.ending == Ending::kRunning &&
         elapsed(state.last_seen, end_for(run, trace_of(run, state))) > kDeadAfter;
}

// Whose GPU the others wait for is known, and not that this takes longer than a step of the job.
std::optional<Stall> young_stall(const Run& run) {
  std::vector<Stall> stalls = find_stalls(run, HostWait::kAtMost);
  std::erase_if(stalls, [&](const Stall& stall) {
    return !stall.known || stall.suspects.empty() || stall.kind == StallKind::kNoRoom ||
           !is_first(run, stall) || is_at_work(run, stall);
  });
  const auto first =
      std::min_element(stalls.begin(), stalls.end(),
                       [](const Stall& a, const Stall& b) { return a.since < b.since; });
  return first == stalls.end() ? std::nullopt : std::optional(*first);
}

void tell_young_stall(const Run& run, const Stall& stall, Finding& finding) {
  const TimeNs pace = pace_of(run, run.communicators[stall.communicator], stall.since);
  finding.title = fmt::format("{}; the longest step so far took {}, so this may be a long one ({})",
                              young_stall_text(run, stall), seconds(pace), state_text(run));
  finding.evidence = stall_evidence(run, {stall, nullptr, {}});
  finding.advice = run.live
                       ? "look again later"
                       : "look at what it does now (traintrace attach), or analyze again later";
}

// Who keeps the others waiting for long, and was seen to move meanwhile.
void tell_who_moves(const Run& run, Finding& finding) {
  for (const Wait& wait : run.waits.waits) {
    const auto at_work =
        std::find_if(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
          const RankState* const state = state_of(run, awaited.rank);
          return !awaited.entered && state != nullptr && is_seen_to_move(run, *state);
        });
    if (at_work == wait.awaited.end()) {
      continue;
    }
    const Rank rank = at_work->rank;
    const auto place = place_now(*seen_outside(run, *state_of(run, rank)), rank);
    finding.title = fmt::format(
        "{}: rank {} works{}, and {} rank{} wait{} for it in {}, for {}; it moved between the "
        "samples: slow, not stuck",
        state_text(run), rank.value, place ? " at " + place_text(*place) : "", wait.waiters.size(),
        wait.waiters.size() == 1 ? "" : "s", wait.waiters.size() == 1 ? "s" : "",
        operation_text(run, wait), seconds(sides_of(wait).waited));
    if (place) {
      finding.where.push_back(*place);
    }
    finding.advice =
        "look again later. If that work may take long, give the process group a time limit that "
        "it fits in";
    return;
  }
}

// "ranks 0-2 have waited for 9.66 s in ncclAllGather #27 on communicator ep (4 ranks), for rank 3"
std::string longest_wait_text(const Run& run, TimeNs longest) {
  for (const Wait& wait : run.waits.waits) {
    const auto [waiting, awaited, waited] = sides_of(wait);
    if (waited == longest) {
      return fmt::format("{} {} waited for {} in {}, for {}", ranks_text(waiting),
                         waiting.size() == 1 ? "has" : "have", seconds(longest),
                         operation_text(run, wait), ranks_text(awaited));
    }
  }
  return fmt::format("the longest wait has lasted {}", seconds(longest));
}

Ranks ranks_of(const Run& run) {
  Ranks ranks;
  for (const RankState& state : run.ranks) {
    insert(ranks, state.rank);
  }
  return ranks;
}

Finding in_progress(const Run& run) {
  Finding finding;
  finding.code = "run.in-progress";
  const TimeNs longest = add_waits(run, finding);
  const bool waiting = !run.waits.waits.empty();
  const bool silent = silence(run) >= run.hang_after;
  finding.certainty = waiting && (!run.live || longest >= run.hang_after) ? Certainty::kPossible
                      : run.live && !silent && is_complete(run)           ? Certainty::kProof
                                                                          : Certainty::kLikely;
  finding.title = longest >= run.hang_after
                      ? fmt::format("{}, but {}; that is not known to be a hang", state_text(run),
                                    longest_wait_text(run, longest))
                      : fmt::format("{}: no rank is known to have kept others waiting for {}",
                                    state_text(run), seconds(run.hang_after));
  if (longest >= run.hang_after) {
    tell_who_moves(run, finding);
  }
  const Ranks stuck = stuck_in_a_call(run);
  Ranks unclear = stuck;
  for (const RankState& state : run.ranks) {
    if (is_silent(run, state)) {
      insert(unclear, state.rank);
    }
  }
  add_lines(last_call_lines(run, unclear), finding.evidence);
  if (silent && !waiting) {
    add_lines(sampled_lines(run, ranks_of(run)), finding.evidence);
  }
  if (!stuck.empty()) {
    finding.certainty = Certainty::kPossible;
    finding.title = fmt::format(
        "{}, but {} {} inside one call for {} or more; nothing that was recorded says why",
        state_text(run), ranks_text(stuck), stuck.size() == 1 ? "has been" : "have been",
        seconds(run.hang_after));
    if (const auto stall = young_stall(run)) {
      tell_young_stall(run, *stall, finding);
    }
  }
  if (waiting) {
    finding.values = {{"waited_ns", longest}};
  }
  return finding;
}

// Of records that do not say that the run ended.
Finding unended(const Run& run) {
  if (auto finding = undecided(run)) {
    return *std::move(finding);
  }
  if (auto finding = memory_alone(run)) {
    return *std::move(finding);
  }
  return in_progress(run);
}

void add_unknown_messages(const Run& run, Finding& finding) {
  const std::vector<UnknownMessages> unknown = unknown_messages(run);
  if (unknown.empty()) {
    return;
  }
  const UnknownMessages& first = unknown.front();
  finding.evidence.push_back(fmt::format(
      "messages of {} pair{} of ranks differ before those that are kept, and in what cannot be "
      "said: the first from rank {} to rank {} on communicator {}, before #{}",
      unknown.size(), unknown.size() == 1 ? "" : "s", first.from.value, first.to.value,
      label_of(run, run.communicators[first.communicator]), first.before));
  finding.values.emplace_back("unknown_pair_count", static_cast<int64_t>(unknown.size()));
  finding.certainty = std::max(finding.certainty, Certainty::kLikely);
}

// Each of these says that there are ranks of which nothing was seen.
bool is_about_absent_ranks(const Finding& finding) {
  return finding.code == "trace.missing-rank" || finding.code == "trace.elsewhere" ||
         finding.code == "trace.forbidden" || finding.code == "trace.unreachable";
}

// Of a run that ended well as far as it was seen.
void doubt_absent_ranks(const Run& run, std::vector<Finding>& findings) {
  Finding* first = nullptr;
  for (Finding& finding : findings) {
    if (is_about_absent_ranks(finding)) {
      finding.severity = Severity::kWarning;
      first = first == nullptr || is_reported_before(finding, *first) ? &finding : first;
    }
  }
  if (first != nullptr) {
    first->title +=
        fmt::format(", so whether all ranks ended normally is unknown; {} did", run.ranks.size());
  }
}

}  // namespace

bool leaves_wait_open(const Run& run, const Finding& finding) {
  return finding.code == "run.in-progress" &&
         std::any_of(finding.values.begin(), finding.values.end(), [&](const auto& value) {
           return std::string_view(value.first) == "waited_ns" && value.second >= run.hang_after;
         });
}

void summarise(const Run& run, std::vector<Finding>& findings) {
  const bool over = std::all_of(run.ranks.begin(), run.ranks.end(), [&](const RankState& state) {
    return exited_normally(run, state);
  });
  if (over && !run.missing.empty()) {
    return doubt_absent_ranks(run, findings);
  }
  Finding& finding = findings.emplace_back(over ? healthy(run) : unended(run));
  add_unknown_messages(run, finding);
}

}  // namespace traintrace
