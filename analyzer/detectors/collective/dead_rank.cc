// A rank's process ended and left no word about why, or is silent, while others wait for it.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <map>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/model/waiting/hang_cause.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// When the last of these was heard, as the clock of the root shows it; 0: of none that is known.
TimeNs heard_until(const Run& run, Rank root, const Ranks& ranks) {
  const ProcessTrace& own = trace_of(run, *state_of(run, root));
  TimeNs last = 0;
  for (const Rank rank : ranks) {
    const RankState* const state = state_of(run, rank);
    if (state != nullptr &&
        uncertainty_between(run, own, trace_of(run, *state)) != kNoCommonClock) {
      last = std::max(last, state->last_seen);
    }
  }
  return last;
}

// The silence that says it was first: of the one that was heard last, so the shortest.
TimeNs silence(const Run& run, const Hang& hang) {
  Ranks waiting;
  for (const Waiter& waiter : run.waits.waits[hang.wait].waiters) {
    insert(waiting, waiter.rank);
  }
  Rank heard = hang.roots.front();
  for (const Rank rank : hang.roots) {
    if (state_of(run, rank)->last_seen > state_of(run, heard)->last_seen) {
      heard = rank;
    }
  }
  TimeNs last = heard_until(run, heard, waiting);
  last = last != 0 ? last : heard_until(run, heard, hang.victims);
  return last != 0 ? elapsed(state_of(run, heard)->last_seen, last) : 0;
}

// How it ended is known, or the others outlived it by what makes a hang: else all may have been
// stopped.
bool was_not_just_stopped(const Run& run, const RankState& state, const Waiter& waiter) {
  const RankState& other = *state_of(run, waiter.rank);
  return trace_of(run, state).wait_status >= 0 || !has_ended(other) ||
         other.process == state.process ||
         elapsed(state.life.ended, known_until(run, other)) >= run.hang_after;
}

// By how much their clocks may be off against each other; 0: it is one clock.
TimeNs apart(const Run& run, const RankState& state, const Waiter& waiter) {
  return uncertainty_between(run, trace_of(run, state), run.processes[waiter.process]);
}

TimeNs outlived_by(const Run& run, const RankState& state, const Waiter& waiter) {
  return elapsed(state.life.ended, known_until(run, *state_of(run, waiter.rank)));
}

// Of those on other clocks no one may have ended before it.
bool ended_before_others(const Run& run, const RankState& state, const Waiter& waiter) {
  const TimeNs off = apart(run, state, waiter);
  return off == 0 ? was_not_just_stopped(run, state, waiter)
                  : off != kNoCommonClock && outlived_by(run, state, waiter) > off;
}

// By one clock, and longer than all of a job take to end.
bool is_witness_of_end(const Run& run, const RankState& state, const Waiter& waiter) {
  return apart(run, state, waiter) == 0 && trace_of(run, state).wait_status >= 0 &&
         run.processes[waiter.process].host == trace_of(run, state).host &&
         outlived_by(run, state, waiter) > kDeadAfter;
}

// What keeps it from being a proof that this rank was there no more while the others were.  Of
// processes that are all gone by now, the kernel does not say who was first: then it takes that
// somebody noted when it ended.
enum class NotSeenToEnd {
  kSeen,
  kNotNoted,
  kNoWitness,      // ranks on several clocks wait, and none on its own
  kUnknownBefore,  // one of another clock may have ended before
};

NotSeenToEnd not_seen_to_end(const Run& run, const Hang& hang, const RankState& state) {
  const std::vector<Waiter>& waiters = run.waits.waits[hang.wait].waiters;
  const auto has_one_clock = [&](const Waiter& waiter) { return apart(run, state, waiter) == 0; };
  if (run.live) {
    return NotSeenToEnd::kSeen;
  }
  if (state.life.evidence != EndEvidence::kNoted) {
    return NotSeenToEnd::kNotNoted;
  }
  if (!std::all_of(waiters.begin(), waiters.end(),
                   [&](const Waiter& waiter) { return ended_before_others(run, state, waiter); })) {
    return std::all_of(waiters.begin(), waiters.end(), has_one_clock)
               ? NotSeenToEnd::kNotNoted
               : NotSeenToEnd::kUnknownBefore;
  }
  const bool is_seen = std::all_of(waiters.begin(), waiters.end(), has_one_clock) ||
                       std::any_of(waiters.begin(), waiters.end(), [&](const Waiter& waiter) {
                         return is_witness_of_end(run, state, waiter);
                       });
  return is_seen ? NotSeenToEnd::kSeen : NotSeenToEnd::kNoWitness;
}

bool was_seen_to_end(const Run& run, const Hang& hang) {
  return std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
    return not_seen_to_end(run, hang, *state_of(run, rank)) == NotSeenToEnd::kSeen;
  });
}

// Empty: what was found says it, or nothing is missing.
std::string not_seen_text(const Run& run, const Hang& hang) {
  for (const Rank rank : hang.roots) {
    const RankState& state = *state_of(run, rank);
    switch (hang.fate == Fate::kDied ? not_seen_to_end(run, hang, state) : NotSeenToEnd::kSeen) {
      case NotSeenToEnd::kNoWitness:
        return fmt::format(
            "not a proof: no rank that waits for rank {} ran on {} and outlived it there by {}; "
            "that the others did is by clocks of other hosts",
            rank.value, trace_of(run, state).host, seconds(kDeadAfter));
      case NotSeenToEnd::kUnknownBefore:
        return fmt::format(
            "not a proof: the clocks of hosts do not say that all that wait outlived rank {}",
            rank.value);
      case NotSeenToEnd::kSeen:
      case NotSeenToEnd::kNotNoted:
        break;
    }
  }
  return "";
}

Certainty dead_rank_certainty(const Run& run, const Hang& hang) {
  if (hang.fate == Fate::kDumpedEarly) {
    return Certainty::kLikely;
  }
  if (hang.fate != Fate::kDied) {
    return Certainty::kPossible;
  }
  const auto& waiters = run.waits.waits[hang.wait].waiters;
  // Where the dead one had entered too, the others may have done with it.
  const bool stuck =
      !hang.entered || std::any_of(waiters.begin(), waiters.end(),
                                   [](const Waiter& waiter) { return waiter.blocked; });
  return stuck && was_seen_to_end(run, hang) && !doubts_about(run, hang).any() ? Certainty::kProof
                                                                               : Certainty::kLikely;
}

// " of signal 9 (Killed)", if all of them died of it.
std::string cause_text(const Run& run, const Hang& hang) {
  const int first = trace_of(run, *state_of(run, hang.roots.front())).wait_status;
  const bool same = std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
    return trace_of(run, *state_of(run, rank)).wait_status == first;
  });
  return same && first >= 0 && WIFSIGNALED(first) ? " of " + signal_text(WTERMSIG(first)) : "";
}

// Who has waited for a process notes its end at once, and its status with it.  Others note that it
// is gone when they look next.
std::string when_ended_text(const Run& run, const Hang& hang) {
  const RankState& state = *state_of(run, hang.roots.front());
  const std::string last = run_time(run, state.last_seen);
  const std::string noted = run_time(run, state.life.ended);
  const bool at_once = trace_of(run, state).wait_status >= 0;
  return at_once || state.life.evidence != EndEvidence::kNoted || hang.roots.size() > 1 ||
                 state.last_seen >= state.life.ended || last == noted
             ? "at " + noted
             : fmt::format("between {} and {}", last, noted);
}

std::string what_text(const Run& run, const Hang& hang) {
  const Life& life = state_of(run, hang.roots.front())->life;
  const bool one = hang.roots.size() == 1;
  if (hang.fate == Fate::kDumpedEarly) {
    return fmt::format(
        "wrote {} dump at {}, {} before the others and before any time limit: {} ended",
        one ? "its" : "their", run_time(run, life.last_seen), seconds(silence(run, hang)),
        one ? "it has" : "they have");
  }
  if (hang.fate == Fate::kSilent) {
    return fmt::format("{} silent from {} on, and may have died or been stopped",
                       one ? "was" : "were", run_time(run, life.last_seen));
  }
  if (life.evidence == EndEvidence::kKernel) {
    return fmt::format("{} gone, last heard of at {}", one ? "is" : "are",
                       run_time(run, life.last_seen));
  }
  return fmt::format("{} {}",
                     hang.fate == Fate::kDied ? "died" + cause_text(run, hang)
                                              : std::string("may have died first,"),
                     when_ended_text(run, hang));
}

// " (all of host b)": then it is the machine or its network, most likely.  Empty: several ranks are
// not of one of several hosts.
std::string host_text(const Run& run, const Ranks& ranks) {
  const std::string& host = trace_of(run, *state_of(run, ranks.front())).host;
  const auto is_there = [&](Rank rank) { return trace_of(run, *state_of(run, rank)).host == host; };
  if (ranks.size() == 1 || run.hosts.size() < 2 || host.empty() ||
      !std::all_of(ranks.begin(), ranks.end(), is_there)) {
    return "";
  }
  const auto of_host =
      std::count_if(run.ranks.begin(), run.ranks.end(),
                    [&](const RankState& state) { return trace_of(run, state).host == host; });
  return fmt::format(" ({} host {})",
                     static_cast<size_t>(of_host) == ranks.size() ? "all of" : "on", host);
}

std::string dead_rank_title(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  return fmt::format("{}{} {}; {} for {} in {}{}", ranks_text(hang.roots),
                     host_text(run, hang.roots), what_text(run, hang), waiting_text(run, hang),
                     hang.roots.size() == 1 ? "it" : "them", operation_text(run, wait),
                     further_text(run, hang));
}

// "ended by signal 9 (Killed)"
std::string status_text(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return "ended by " + signal_text(WTERMSIG(wait_status));
  }
  return WIFEXITED(wait_status)
             ? fmt::format("ended with status {}, past its exit handlers", WEXITSTATUS(wait_status))
             : "how it ended was not recorded";
}

std::string how_text(const Run& run, const RankState& state) {
  switch (state.life.evidence) {
    case EndEvidence::kNoted:
      return fmt::format("{}; it was gone by {}", status_text(trace_of(run, state).wait_status),
                         run_time(run, state.life.ended));
    case EndEvidence::kKernel:
      return "is there no more, and left no exit record: killed by a signal";
    case EndEvidence::kNone:
    case EndEvidence::kExitRecord:
      break;
  }
  return "silent, and nothing says that it ended: a signal that stops it, a pause of its container "
         "or a disk that hangs looks the same as its death or that of its machine";
}

void say_how_it_died(const Run& run, const Hang& hang, Finding& finding) {
  if (hang.fate == Fate::kDumpedEarly) {
    finding.evidence.push_back(
        "not a proof: a dump does not say why it was written; a process writes one when it ends");
    return;
  }
  constexpr size_t kMostByThemselves = 3;
  constexpr size_t kMostLines = 24;
  // Ranks of one host that ended in the same way are one line: of a lost machine all are.
  std::map<std::pair<std::string, std::string>, Ranks> groups;
  for (const Rank rank : hang.roots) {
    const RankState& state = *state_of(run, rank);
    insert(groups[{trace_of(run, state).host, how_text(run, state)}], rank);
  }
  for (const auto& [group, ranks] : groups) {
    if (ranks.size() > kMostByThemselves) {
      TimeNs first = state_of(run, ranks.front())->last_seen;
      TimeNs last = first;
      for (const Rank rank : ranks) {
        first = std::min(first, state_of(run, rank)->last_seen);
        last = std::max(last, state_of(run, rank)->last_seen);
      }
      finding.evidence.push_back(
          fmt::format("{} ({}) on {}: last signs of life {}{}; those that wait for them were "
                      "heard of for {} more; {}",
                      ranks_text(ranks), ranks.size(), group.first,
                      first == last ? "at " : fmt::format("from {} to ", run_time(run, first)),
                      run_time(run, last), seconds(silence(run, hang)), group.second));
      continue;
    }
    for (const Rank rank : ranks) {
      const RankState& state = *state_of(run, rank);
      finding.evidence.push_back(
          fmt::format("rank {}, process {} on {}: last sign of life at {}; those that wait for "
                      "it were heard of for {} more; {}",
                      rank.value, trace_of(run, state).pid, group.first,
                      run_time(run, state.last_seen), seconds(silence(run, hang)), group.second));
    }
    if (finding.evidence.size() > kMostLines) {
      return;
    }
  }
}

// A fault of the process's own, which leaves more than logs.
bool has_crashed(const ProcessTrace& trace) {
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP};
  return trace.wait_status >= 0 && WIFSIGNALED(trace.wait_status) &&
         std::find(std::begin(kFaults), std::end(kFaults), WTERMSIG(trace.wait_status)) !=
             std::end(kFaults);
}

std::string where_to_look(const Run& run, const Ranks& ranks) {
  const bool one = ranks.size() == 1;
  const std::string& host = trace_of(run, *state_of(run, ranks.front())).host;
  const bool same = std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    return trace_of(run, *state_of(run, rank)).host == host;
  });
  return fmt::format(
      "look on {} whether the process{} there and in which state (ps -o stat), and in the "
      "launcher's log",
      same && !host.empty() ? host
      : one                 ? "its machine"
                            : "their machines",
      one ? " is" : "es are");
}

std::string advice_for(const Run& run, const Hang& hang) {
  const bool crashed = std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
    return has_crashed(trace_of(run, *state_of(run, rank)));
  });
  if (hang.fate == Fate::kDied && crashed) {
    return "find out where it crashed: a core dump (coredumpctl, gdb), or run it again with "
           "PYTHONFAULTHANDLER=1; the last recorded call is the last that was seen, not where it "
           "crashed";
  }
  return hang.fate == Fate::kDied || hang.fate == Fate::kDumpedEarly
             ? "find out what ended it: the launcher's log, the kernel's log (out of memory), the "
               "machine"
         : hang.fate == Fate::kSilent
             ? where_to_look(run, hang.roots)
             : "all ended at about the same time: the launcher's log says who was first";
}

}  // namespace

std::vector<Finding> find_dead_rank(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if ((!may_have_died(hang.fate) && hang.fate != Fate::kDumpedEarly) ||
        !hang.divergences.empty() || cause_of(run, hang) != Cause::kNotSeen) {
      continue;
    }
    Finding finding = hang_finding(run, hang, "collective.dead-rank");
    finding.title = dead_rank_title(run, hang);
    finding.certainty = dead_rank_certainty(run, hang);
    finding.values.emplace_back("silent_ns", silence(run, hang));
    say_how_it_died(run, hang, finding);
    if (std::string why = not_seen_text(run, hang); !why.empty()) {
      finding.evidence.push_back(std::move(why));
    }
    finding.advice = advice_for(run, hang);
    if (hang.fate == Fate::kDied || hang.fate == Fate::kDumpedEarly) {
      finding.culprits = hang.roots;
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace traintrace
