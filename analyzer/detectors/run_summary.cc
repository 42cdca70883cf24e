// run.healthy and run.in-progress: what is said of a run in which nothing wrong was found.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang_finding.h"
#include "analyzer/memory/held_at.h"
#include "analyzer/memory/who_held.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/ending.h"
#include "analyzer/model/older_messages.h"
#include "analyzer/model/run_clocks.h"
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
  return run.missing.empty() && run.unreadable.empty() &&
         std::all_of(run.processes.begin(), run.processes.end(), whole);
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
          fmt::format("communicator {}: {} collectives", communicator.name, count));
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

}  // namespace

TimeNs add_waits(const Run& run, Finding& finding) {
  TimeNs longest = 0;
  for (const Wait& wait : run.waits.waits) {
    Ranks waiting;
    Ranks awaited;
    TimeNs waited = 0;
    for (const Waiter& waiter : wait.waiters) {
      waiting.push_back(waiter.rank);
      waited = std::max(waited, elapsed(waiter.since, waiter.until));
    }
    for (const Awaited& other : wait.awaited) {
      awaited.push_back(other.rank);
    }
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
    return run.live ? "the run goes on" : "the run was going on when its records end";
  }
  if (!silent.empty()) {
    ends.emplace_back(run.live ? "did not yet" : "left no exit record", silent);
  }
  std::string text;
  for (const auto& [end, ranks] : ends) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ranks_text(ranks), end);
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

// "ranks 0,1,3 were in ncclAllReduce #25 on communicator dp (4 ranks), which rank 2 had not
// entered"
std::string open_wait_text(const Run& run, const Wait& wait) {
  Ranks waiting;
  Ranks missing;
  Ranks inside;
  for (const Waiter& waiter : wait.waiters) {
    insert(waiting, waiter.rank);
  }
  for (const Awaited& awaited : wait.awaited) {
    insert(awaited.entered ? inside : missing, awaited.rank);
  }
  const Ranks& others = missing.empty() ? inside : missing;
  return fmt::format("{} {} in {}, which {} had not {}", ranks_text(waiting),
                     waiting.size() == 1 ? "was" : "were", operation_text(run, wait),
                     ranks_text(others), missing.empty() ? "completed" : "entered");
}

// Dumps that were written before any time limit of theirs had passed, but after a wait that in a
// recorded run would be a hang: a slow step looks the same.  None: nobody waits for so long.
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
      "cannot be told whether the run still moves: {}, for up to {}; no time limit had passed",
      open_wait_text(run, *waits.front()), seconds(longest));
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

// Files about memory, which tell nothing of what ranks did.
bool is_of_memory_alone(const Run& run) {
  return !run.processes.empty() &&
         std::all_of(run.processes.begin(), run.processes.end(), [](const ProcessTrace& trace) {
           const auto source = trace.facts.find("source");
           return source != trace.facts.end() &&
                  (source->second == "torch-snapshot" || source->second == "rmm-csv");
         });
}

// What the rank held that held most.
Finding held_memory(const Run& run) {
  Finding finding;
  finding.code = "run.in-progress";
  finding.certainty = Certainty::kLikely;
  finding.title = "a record of memory alone, in which no allocation failed";
  const RankState* most = nullptr;
  OutOfMemoryText held;  // by it, at the end
  for (const RankState& state : run.ranks) {
    for (const TensorDeviceText& device : trace_of(run, state).tensor_devices) {
      if (most == nullptr || device.allocated > held.allocated) {
        most = &state;
        held = held_at(trace_of(run, state), static_cast<uint8_t>(device.device), state.last_seen);
        held.allocated = device.allocated;
        held.reserved = device.reserved;
      }
    }
  }
  if (most != nullptr) {
    finding.title += fmt::format(": rank {} had {} bytes in use, and held {} bytes",
                                 most->rank.value, held.allocated, held.reserved);
    finding.evidence = who_held(run, *most, held);
  }
  return finding;
}

Finding in_progress(const Run& run) {
  if (auto finding = undecided(run)) {
    return *std::move(finding);
  }
  if (is_of_memory_alone(run)) {
    return held_memory(run);
  }
  Finding finding;
  finding.code = "run.in-progress";
  const TimeNs longest = add_waits(run, finding);
  const bool waiting = !run.waits.waits.empty();
  finding.certainty = waiting && (!run.live || longest >= run.hang_after) ? Certainty::kPossible
                      : run.live && is_complete(run)                      ? Certainty::kProof
                                                                          : Certainty::kLikely;
  finding.title =
      longest >= run.hang_after
          ? fmt::format("{}: the longest wait has lasted {}, which is not known to be a hang",
                        state_text(run), seconds(longest))
          : fmt::format("{}: no rank is known to have kept others waiting for {}", state_text(run),
                        seconds(run.hang_after));
  const Ranks stuck = stuck_in_a_call(run);
  for (const RankState& state : run.ranks) {
    if (finding.evidence.size() < 2 * kEvidenceLines &&
        (contains(stuck, state.rank) || is_silent(run, state))) {
      finding.evidence.push_back(last_call_text(run, state.rank));
    }
  }
  if (!stuck.empty()) {
    finding.certainty = Certainty::kPossible;
    finding.title = fmt::format(
        "{}, but {} {} inside one call for {} or more; nothing that was recorded says why",
        state_text(run), ranks_text(stuck), stuck.size() == 1 ? "has been" : "have been",
        seconds(run.hang_after));
  }
  if (waiting) {
    finding.values = {{"waited_ns", longest}};
  }
  return finding;
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
      run.communicators[first.communicator].name, first.before));
  finding.values.emplace_back("unknown_pair_count", static_cast<int64_t>(unknown.size()));
  finding.certainty = std::max(finding.certainty, Certainty::kLikely);
}

}  // namespace

Finding summarise(const Run& run) {
  const bool over = std::all_of(run.ranks.begin(), run.ranks.end(), [&](const RankState& state) {
    return exited_normally(run, state);
  });
  Finding finding = over ? healthy(run) : in_progress(run);
  add_unknown_messages(run, finding);
  return finding;
}

}  // namespace traintrace
