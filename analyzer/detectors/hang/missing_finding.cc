#include "analyzer/detectors/hang/missing_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/detectors/hang/blame.h"
#include "analyzer/detectors/hang/claims.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/tense.h"
#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/model/divergence/usual_order.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/elsewhere.h"
#include "analyzer/model/waiting/hang_cause.h"
#include "analyzer/model/waiting/host_stuck.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_halted(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  return state != nullptr && state->life.halt != Halt::kNot;
}

// What was seen of them counts for more than how many they are.
bool all_are_halted(const Run& run, const Hang& hang) {
  return std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return is_halted(run, rank); });
}

// All its calls have returned, it polls nothing and has no group open: its host is elsewhere, and
// nobody saw it inside CUDA or NCCL.
bool is_in_no_call(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  if (state == nullptr) {
    return true;
  }
  const ProcessTrace& trace = trace_of(run, *state);
  const ThreadNow* const seen = working_thread(run, *state);
  const bool in_vendors = seen != nullptr && seen->steady &&
                          (seen->waiting == Waiting::kNccl || seen->waiting == Waiting::kCuda);
  const bool in_group =
      std::any_of(trace.threads.begin(), trace.threads.end(), [&](const ThreadText& thread) {
        return thread.group_depth != 0 && works_for(*state, thread);
      });
  const auto activity = activity_of(run, *state);
  return !in_vendors && !in_group && (!activity || (!activity->open && activity->queries == 0));
}

// One of them has not come for long, and that is all: it may be at work that no other rank does,
// such as the first evaluation or checkpoint of the run.  Dumps are judged when a time limit has
// passed.
bool only_time_speaks(const Run& run, const Hang& hang) {
  const Communicator& communicator = run.communicators[run.waits.waits[hang.wait].communicator];
  return hang.fate == Fate::kAlive && hang.waited < kWorkingPatience && !run.waits.by_frontier &&
         first_abort(run, communicator) == 0 &&
         std::any_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return is_in_no_call(run, rank) && !is_halted(run, rank); });
}

Certainty missing_certainty(const Run& run, const Hang& hang) {
  if ((hang.fate == Fate::kUntraced && !hang.alone) || hang.blocked) {
    return Certainty::kPossible;
  }
  if (!hang.twins.empty()) {
    return Certainty::kLikely;
  }
  const Wait& wait = run.waits.waits[hang.wait];
  // Who sends in a broadcast may be done long ago, unless the GPU says otherwise; who was not seen
  // for long while the others waited may have been dead.
  const bool all_need_all =
      direction_of(wait.operation) == Direction::kAllToAll && wait.kind != WaitKind::kSend;
  const bool unfinished = std::all_of(wait.waiters.begin(), wait.waiters.end(),
                                      [](const Waiter& waiter) { return waiter.unfinished; });
  const bool sure = (all_need_all || unfinished) && hang.witnessed >= run.hang_after &&
                    !wait.inferred && !only_time_speaks(run, hang) &&
                    !doubts_about(run, hang).any();
  return sure ? Certainty::kProof : Certainty::kLikely;
}

bool one_is_halted(const Run& run, const Hang& hang) {
  return std::any_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return is_halted(run, rank); });
}

// Of those of whom nothing is known there: a trace that cannot be read as a whole.
bool one_is_damaged(const Run& run, const Ranks& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](Rank rank) { return state_of(run, rank) != nullptr; });
}

// Where all of them are instead, inside a call or polling, "data.py:41 in collate"; empty: that is
// not known, not one place, or where the others wait as well.
std::string place_instead(const Run& run, const Hang& hang, const Finding& finding) {
  std::set<std::string> places, of_waiters;
  for (const Rank rank : hang.roots) {
    const RankState* const state = state_of(run, rank);
    const auto activity = state == nullptr ? std::nullopt : activity_of(run, *state);
    const bool is_there = activity && (activity->open || activity->queries > 0);
    const uint32_t stack = is_there                             ? activity->stack
                           : state != nullptr && state->sampled ? state->sampled->stack
                                                                : 0;
    const auto place =
        stack != 0 ? user_place(trace_of(run, *state), rank, stack) : std::optional<CodePlace>();
    places.insert(place ? place_text(*place) : "");
  }
  for (const CodePlace& place : finding.where) {
    if (!contains(hang.roots, place.rank)) {
      of_waiters.insert(place_text(place));
    }
  }
  return places.size() == 1 && !of_waiters.contains(*places.begin()) ? *places.begin() : "";
}

std::string advice_for(const Run& run, const Hang& hang, const Finding& finding) {
  if (one_is_halted(run, hang)) {
    return "find out who stopped it, and let it go on: kill -CONT, the debugger, docker unpause";
  }
  if (hang.fate == Fate::kUntraced && one_is_damaged(run, hang.roots)) {
    return "collect the damaged traces again (traintrace collect), and analyze once more";
  }
  if (hang.fate == Fate::kUntraced && are_elsewhere(run, hang.roots)) {
    return "collect their traces first (traintrace collect, on their hosts), and analyze once more";
  }
  if (hang.fate == Fate::kUntraced && !run.unreadable.empty()) {
    return "make those traces readable (the findings below say why they are not), and analyze once "
           "more";
  }
  if (hang.fate == Fate::kUntraced && knows_order_only(run)) {
    return "look for the dumps of these ranks: a process that ended before its watchdog or "
           "another's asked for dumps writes none";
  }
  if (hang.fate == Fate::kUntraced) {
    return "give the traces of these ranks' hosts, too (traintrace collect); if there are none, "
           "these ranks never used a GPU, or their traces were not kept";
  }
  if (hang.blocked) {
    return hang.roots.size() == 1
               ? "the missing rank is inside a call that waits: look at what it waits for"
               : "the missing ranks are inside calls that wait: look at what these wait for";
  }
  const bool one = hang.roots.size() == 1;
  const std::string place = place_instead(run, hang, finding);
  return fmt::format(
      "{}: a branch that only {} took, or work that the others do not have",
      place.empty()
          ? fmt::format("look at what {} do{} instead", ranks_text(hang.roots), one ? "es" : "")
          : fmt::format("look at why {} {} at {} instead", ranks_text(hang.roots),
                        is_word(run, hang.roots), place),
      one ? "it" : "they");
}

// "rank 2, which is stopped (SIGSTOP or a debugger),"
std::string who_text(const Run& run, const Hang& hang) {
  std::string held;
  for (const Rank rank : hang.roots) {
    const RankState* const state = state_of(run, rank);
    const std::string own = state == nullptr ? "" : halt_text(*state);
    held = rank == hang.roots.front() || own == held ? own : "";
  }
  const std::string verb = hang.roots.size() == 1 ? "is" : "are";
  return ranks_text(hang.roots) + (held.empty() ? "" : fmt::format(", which {} {},", verb, held));
}

std::string untraced_text(const Run& run, const Ranks& ranks) {
  return fmt::format("{}, and may not have entered", one_is_damaged(run, ranks)
                                                         ? "left a damaged trace"
                                                         : no_trace_text(run, ranks));
}

// When those that waited had given it up.
bool all_came_too_late(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  return wait.kind == WaitKind::kCollective &&
         std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return came_too_late(run, wait, rank); });
}

std::string missing_title(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  const std::string who = who_text(run, hang);
  if (all_came_too_late(run, hang)) {
    return fmt::format("{} entered {} when {} rank{} had given it up{}", who,
                       operation_text(run, wait), wait.waiters.size(),
                       wait.waiters.size() == 1 ? "" : "s", further_text(run, hang));
  }
  const std::string verb =
      hang.fate == Fate::kUntraced      ? are_elsewhere(run, hang.roots)
                                              ? "(traces on another host) may not have entered"
                                              : untraced_text(run, hang.roots)
           : wait.kind == WaitKind::kReceive ? never_text(run, hang.roots, "sent what is awaited by")
      : wait.kind == WaitKind::kSend    ? never_text(run, hang.roots, "received what is sent by")
                                        : never_text(run, hang.roots, "entered");
  return fmt::format("{} {} {}; {} in it{}", who, verb, operation_text(run, wait),
                     waiting_text(run, hang), further_text(run, hang));
}

// Of a message: the peer did otherwise than each time before, and none of those that wait for it.
bool only_roots_changed(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  return (wait.kind == WaitKind::kReceive || wait.kind == WaitKind::kSend) &&
         std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return departs_to_known(run, rank); }) &&
         std::none_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
           return departs_from_habit(run, waiter.rank, wait.communicator, waiter.since)
               .value_or(true);
         });
}

// Those that wait in it have exchanged messages with that peer before: that they ask it is no slip.
bool is_asked_as_before(const Run& run, const Wait& wait) {
  constexpr std::ptrdiff_t kTwice = 2;
  return std::all_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& waiter) {
    const Member* const member = member_of(run.communicators[wait.communicator], waiter.rank);
    if (member == nullptr) {
      return false;
    }
    const std::vector<OperationText>& recent = text_of(run, *member).recent;
    return std::count_if(recent.begin(), recent.end(), [&](const OperationText& other) {
             return !other.collective && other.receive == wait.details.receive &&
                    other.peer == wait.details.peer && other.enter < wait.details.enter;
           }) >= kTwice;
  });
}

void blame_missing(const Run& run, const Hang& hang, Finding& finding) {
  if (all_are_halted(run, hang)) {
    finding.culprits = hang.roots;
  } else if ((!is_minority(hang) ||
              (hang.by_one_of_two && is_asked_as_before(run, run.waits.waits[hang.wait]))) &&
             only_roots_changed(run, hang)) {
    finding.culprits = hang.roots;
    finding.certainty = Certainty::kLikely;
    finding.evidence.push_back(
        fmt::format("{} issued a different call there in every earlier step; {} did not change",
                    ranks_text(hang.roots), ranks_text(finding.victims)));
  } else {
    blame_missing_roots(run, hang, finding);
  }
}

// Held up in a way that nothing explains, as one GPU may hold up many: told once, of the one that
// is awaited for the longest.
class HeldUp {
 public:
  void add(const Hang& hang, Finding finding) {
    add(finding.sides.front(), missing_);
    std::for_each(finding.sides.begin() + 1, finding.sides.end(),
                  [&](const Ranks& side) { add(side, waiting_); });
    add(finding.victims, victims_);
    if (first_ == nullptr || hang.waited > first_->waited) {
      first_ = &hang;
      finding_ = std::move(finding);
    }
  }

  void tell(std::vector<Finding>& findings) {
    if (first_ == nullptr) {
      return;
    }
    Ranks others = missing_;
    std::erase_if(others, [&](Rank rank) { return contains(first_->roots, rank); });
    if (!others.empty()) {
      std::erase_if(waiting_, [&](Rank rank) { return contains(missing_, rank); });
      finding_.victims = victims_;
      finding_.sides = {missing_, waiting_};
      finding_.evidence.push_back(fmt::format("{} {} awaited too, inside calls that wait",
                                              ranks_text(others),
                                              others.size() == 1 ? "is" : "are"));
    }
    findings.push_back(std::move(finding_));
  }

 private:
  static void add(const Ranks& more, Ranks& into) {
    std::for_each(more.begin(), more.end(), [&](Rank rank) { insert(into, rank); });
  }

  const Hang* first_ = nullptr;
  Finding finding_;
  Ranks missing_, waiting_, victims_;
};

}  // namespace

std::vector<Finding> find_missing(const Run& run, WaitKind kind, std::string_view code) {
  std::vector<Finding> findings;
  HeldUp held_up;
  for (const Hang& hang : run.waits.hangs) {
    if ((hang.fate != Fate::kAlive && hang.fate != Fate::kUntraced) ||
        run.waits.waits[hang.wait].kind != kind || !hang.divergences.empty() ||
        is_stuck_on_host(run, hang) || is_idle(run, hang) ||
        cause_of(run, hang) != Cause::kNotSeen) {
      continue;
    }
    Finding finding = hang_finding(run, hang, code);
    finding.title = missing_title(run, hang);
    finding.certainty = missing_certainty(run, hang);
    finding.advice = advice_for(run, hang, finding);
    if (!hang.twins.empty()) {
      finding.evidence.push_back(parted_text(hang.twins, hang.roots));
    }
    if (run.waits.waits[hang.wait].inferred) {
      finding.evidence.push_back(fmt::format(
          "not proof: the members of the communicator were not recorded; {} {} the only "
          "other rank{} that wait{} in nothing",
          ranks_text(hang.roots), hang.roots.size() == 1 ? "is" : "are",
          hang.roots.size() == 1 ? "" : "s", hang.roots.size() == 1 ? "s" : ""));
    }
    if (finding.certainty != Certainty::kPossible) {
      blame_missing(run, hang, finding);
      findings.push_back(std::move(finding));
      continue;
    }
    finding.title += run.live ? "; no culprit yet" : "; culprit undetermined";
    if (hang.blocked) {
      held_up.add(hang, std::move(finding));
    } else {
      findings.push_back(std::move(finding));
    }
  }
  held_up.tell(findings);
  return findings;
}

}  // namespace traintrace
