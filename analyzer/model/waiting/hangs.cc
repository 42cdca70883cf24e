#include "analyzer/model/waiting/hangs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/judge/patience.h"
#include "analyzer/model/divergence/conflicts.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/process/job_end.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/model/waiting/device_stall.h"
#include "analyzer/model/waiting/wait_search.h"
#include "analyzer/model/waiting/wait_walk.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool have_common_clock(const Run& run, const Waiter& waiter, Rank other) {
  const RankState* const state = state_of(run, other);
  return state == nullptr || uncertainty_between(run, run.processes[waiter.process],
                                                 trace_of(run, *state)) < kNoCommonClock;
}

TimeNs wait_start(const Run& run, const Waiter& waiter, const Awaited& awaited) {
  // It cannot have waited for the n-th operation while the other was still in the one before.
  return have_common_clock(run, waiter, awaited.rank) ? std::max(waiter.since, awaited.moved)
                                                      : waiter.since;
}

// Until when the other was seen not to come.  Without a common clock: for as long as it was there
// after its last move, if that began when the waiting did.
TimeNs witnessed_until(const Run& run, const Waiter& waiter, const Awaited& awaited) {
  const RankState& state = *state_of(run, awaited.rank);
  const TimeNs there = known_until(run, state);
  if (have_common_clock(run, waiter, awaited.rank)) {
    return std::min(waiter.until, there);
  }
  const TimeNs waited = elapsed(waiter.since, waiter.until);
  return waiter.since +
         std::clamp<TimeNs>(elapsed(awaited.moved, there), 0, std::max<TimeNs>(waited, 0));
}

// For certain.
bool ended_before(const Run& run, Rank rank, const RankState& other) {
  const RankState* const state = state_of(run, rank);
  return state != nullptr && has_ended(*state) && !exited_normally(run, *state) &&
         !may_have_died_first(run, other, *state);
}

// Somebody else waited there for a rank that did not come, for as long as a hang takes.
bool outlasts(const Run& run, const Wait& wait, Rank ended) {
  return std::any_of(wait.waiters.begin(), wait.waiters.end(), [&](const Waiter& other) {
    return other.rank != ended && other.process != state_of(run, ended)->process &&
           std::any_of(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
             return !awaited.entered && state_of(run, awaited.rank) != nullptr &&
                    elapsed(wait_start(run, other, awaited),
                            std::min(other.until, witnessed_until(run, other, awaited))) >=
                        run.hang_after;
           });
  });
}

bool is_missing_anywhere(const std::vector<Wait>& waits, Rank rank) {
  return std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
    return std::any_of(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
      return awaited.rank == rank && !awaited.entered;
    });
  });
}

// Its host could do nothing but wait when it was killed, and nobody waited for more of it: with it
// alive, the others would have waited as they did.
bool was_killed_waiting(const Run& run, const std::vector<Wait>& waits, const Wait& wait,
                        const Waiter& waiter) {
  const RankState& state = *state_of(run, waiter.rank);
  const bool held = blocked_in_nccl(run, state) != 0 || blocked_in_cuda(run, state) != 0;
  return held && state.ending == Ending::kGone && outlasts(run, wait, waiter.rank) &&
         !is_missing_anywhere(waits, waiter.rank);
}

// Who ended by itself was not stuck, unless that was a time limit; who was killed while the others
// went on had its own reason, unless it was stuck already, or what it waited for was gone.
bool waited_at_its_end(const Run& run, const std::vector<Wait>& waits, const Wait& wait,
                       const Waiter& waiter) {
  const RankState& state = *state_of(run, waiter.rank);
  if (exited_normally(run, state)) {
    return false;
  }
  TimeNs start = waiter.since;
  for (const Awaited& awaited : wait.awaited) {
    start = std::max(start, wait_start(run, waiter, awaited));
  }
  return !ended_early(run, state) || elapsed(start, waiter.until) >= run.hang_after ||
         was_killed_waiting(run, waits, wait, waiter) ||
         (state.ending != Ending::kExited &&
          std::any_of(wait.awaited.begin(), wait.awaited.end(), [&](const Awaited& awaited) {
            return ended_before(run, awaited.rank, state);
          }));
}

struct Graph {
  const Run& run;
  const WaitSearch& search;
  const JobEnd& end;
};

// What the direct waiters of one root say together.
struct Testimony {
  size_t wait = 0;
  TimeNs start = 0;  // of the earliest waiting
  TimeNs waited = 0;
  TimeNs settled = 0;  // since the last of the waiters of one operation came
  TimeNs witnessed = 0;
  TimeNs last_seen = 0;  // of the waiters: the latest
  bool one_runs = false;
  bool one_blocked = false;
  bool all_entered = true;  // the root is in every operation that it is waited for in
};

// Since the last of them came to wait.  Without a common clock: of each the time that it waited.
TimeNs all_waited_for(const Run& run, const Wait& wait, const Awaited& awaited) {
  TimeNs last_start = 0;
  TimeNs last_until = 0;
  TimeNs least = std::numeric_limits<TimeNs>::max();
  bool comparable = true;
  for (const Waiter& waiter : wait.waiters) {
    const TimeNs start = wait_start(run, waiter, awaited);
    last_start = std::max(last_start, start);
    last_until = std::max(last_until, waiter.until);
    least = std::min(least, elapsed(start, waiter.until));
    comparable = comparable && have_common_clock(run, waiter, wait.waiters.front().rank);
  }
  return comparable ? elapsed(last_start, last_until) : least;
}

// Dumps do not say where a host is, but what the GPU has not done.
bool is_witness(const Run& run, const Waiter& waiter) {
  return waiter.unfinished && is_flight_dump(run.processes[waiter.process]);
}

Testimony testimony_about(const Graph& graph, Rank root) {
  Testimony sum;
  bool first = true;
  bool first_entered = false;
  const RankState* state = state_of(graph.run, root);
  for (const size_t index : graph.search.waits_for.at(root)) {
    const Wait& wait = graph.search.waits[index];
    const auto awaited = std::find_if(wait.awaited.begin(), wait.awaited.end(),
                                      [&](const Awaited& other) { return other.rank == root; });
    sum.all_entered = sum.all_entered && awaited->entered;
    sum.settled = std::max(sum.settled, all_waited_for(graph.run, wait, *awaited));
    for (const Waiter& waiter : wait.waiters) {
      const RankState& own = *state_of(graph.run, waiter.rank);
      const TimeNs start = wait_start(graph.run, waiter, *awaited);
      const TimeNs seen = state == nullptr ? start : witnessed_until(graph.run, waiter, *awaited);
      // Where it is missing says more than where it was.
      if (first || std::pair(awaited->entered, start) < std::pair(first_entered, sum.start)) {
        sum.start = start;
        sum.wait = index;
        first = false;
        first_entered = awaited->entered;
      }
      sum.waited = std::max(sum.waited, elapsed(start, waiter.until));
      sum.witnessed = std::max(sum.witnessed, elapsed(start, seen));
      sum.last_seen = std::max(sum.last_seen, own.last_seen);
      sum.one_runs = sum.one_runs || own.ending == Ending::kRunning;
      sum.one_blocked = sum.one_blocked || waiter.blocked || is_witness(graph.run, waiter);
    }
  }
  return sum;
}

// By how much the clock of the root's host may be off against the waiters'.
TimeNs skew_of(const Graph& graph, const RankState& root, const Wait& wait) {
  TimeNs worst = 0;
  for (const Waiter& waiter : wait.waiters) {
    worst = std::max(worst, uncertainty_between(graph.run, trace_of(graph.run, root),
                                                graph.run.processes[waiter.process]));
  }
  return worst;
}

// By how much one of those that wait for the root was there longer than it for certain: whoever is
// on its clock is the witness, whatever is known of the others' clocks.
TimeNs certain_gap(const Graph& graph, const RankState& root) {
  TimeNs gap = -kNoCommonClock;
  for (const size_t index : graph.search.waits_for.at(root.rank)) {
    for (const Waiter& waiter : graph.search.waits[index].waiters) {
      const RankState* const own = state_of(graph.run, waiter.rank);
      const TimeNs off = uncertainty_between(graph.run, trace_of(graph.run, root),
                                             graph.run.processes[waiter.process]);
      if (own != nullptr && off != kNoCommonClock) {
        gap = std::max(gap, elapsed(off, elapsed(root.last_seen, own->last_seen)));
      }
    }
  }
  return gap;
}

// It goes about its work on other communicators: late here, but not stuck.
bool is_moving(const Run& run, const RankState& state) {
  TimeNs last = 0;
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, state.rank);
    if (member != nullptr && communicator.size != 1) {
      last = std::max(last, last_move(run.processes[member->process], text_of(run, *member)));
    }
  }
  return last != 0 && elapsed(last, known_until(run, state)) < run.hang_after;
}

// Those that waited had given up by then: what ended it is a consequence, as it is for them.  Time
// limits that are equal end within a moment of each other, that of the missing one too.
bool ended_behind_abort(const Run& run, const RankState& state, const Wait& wait) {
  const Communicator& communicator = run.communicators[wait.communicator];
  const TimeNs first = first_abort(run, communicator);
  const Member* const member = member_of(communicator, state.rank);
  const bool aborted = member != nullptr && (text_of(run, *member).flags & format::kAborted) != 0;
  return first != 0 && wait.kind == WaitKind::kCollective &&
         elapsed(first, trace_of(run, state).exited) >= (aborted ? -kAliveUncertain : 0);
}

// Of one that left no exit record and is not known to run; none: that is not what they wait for.
// `gap`: from its own last sign of life to theirs.
std::optional<Fate> fate_of_silent(const Run& run, const RankState& state,
                                   const Testimony& testimony, TimeNs gap) {
  if (is_flight_dump(trace_of(run, state))) {
    return std::nullopt;
  }
  // It was seen alive for long while they waited for it: then it does not matter how it ended.
  const bool explained = testimony.witnessed >= run.hang_after;
  if (state.ending == Ending::kUnknown) {
    return gap > kAliveUncertain && !explained ? std::optional(Fate::kSilent) : std::nullopt;
  }
  const bool noted = state.life.evidence == EndEvidence::kNoted;
  gap -= noted ? elapsed(state.last_seen, state.life.ended) : 0;
  if (testimony.one_runs || gap > (noted ? kDeadAfter : kDeadAfter + kAlivePeriod)) {
    return Fate::kDied;
  }
  return gap > kAliveUncertain && !explained ? std::optional(Fate::kPerhapsDied) : std::nullopt;
}

// None: nothing is wrong with it as far as is known yet.
std::optional<Fate> first_fate_of(const Graph& graph, Rank root, const Testimony& testimony) {
  const Run& run = graph.run;
  const RankState* state = state_of(run, root);
  // While others still come, one that has not is late with them.
  const bool long_enough =
      (testimony.one_runs ? testimony.settled : testimony.waited) >= run.hang_after;
  const Wait& wait = graph.search.waits[testimony.wait];
  if (is_unknown(run, root) && member_of(run.communicators[wait.communicator], root) == nullptr) {
    return long_enough && testimony.one_blocked ? std::optional(Fate::kUntraced) : std::nullopt;
  }
  const TimeNs skew = skew_of(graph, *state, wait);
  const TimeNs seen = elapsed(state->last_seen, testimony.last_seen);
  // At least so much.
  const TimeNs gap = std::max(elapsed(skew, seen), certain_gap(graph, *state));
  const Ranks waiting = graph.search.victims_of({root});
  const bool is_consequence = graph.end.is_consequence(*state, waiting);
  // It was there, and asked to end when they had waited for long: its end is not why they wait.
  const bool ended_hanging =
      graph.end.was_asked_to(*state) && testimony.witnessed >= run.hang_after;
  if (is_consequence) {
    // It may have been stuck before.
    const TimeNs before = elapsed(testimony.start, graph.end.end_began(*state, waiting));
    if (std::min(testimony.witnessed, before) < run.hang_after) {
      return std::nullopt;
    }
  } else if (state->ending == Ending::kExited && !ended_hanging &&
             !ended_behind_abort(run, *state, wait)) {
    if (exited_normally(run, *state)) {
      return long_enough ? std::optional(Fate::kExited) : std::nullopt;
    }
    // An exit is recorded to the ns, life each second: a little later may still be before.
    return gap >= 0 || graph.end.was_first(*state)    ? std::optional(Fate::kExited)
           : elapsed(-skew, seen) >= -kAliveUncertain ? std::optional(Fate::kPerhapsExited)
                                                      : std::nullopt;
  }
  if (state->ending != Ending::kRunning && state->ending != Ending::kExited && !is_consequence &&
      !ended_hanging) {
    if (graph.end.was_first(*state) && testimony.witnessed < run.hang_after) {
      return Fate::kDied;
    }
    if (const auto fate = fate_of_silent(run, *state, testimony, gap)) {
      return fate;
    }
  }
  if (!long_enough || is_moving(run, *state) ||
      testimony.waited < patience_with(run, *state, wait)) {
    return std::nullopt;
  }
  if (device_stall(run, root)) {
    return Fate::kStalled;
  }
  return Fate::kAlive;
}

// What it ended of may have been the same as what ended another; or it gave up waiting itself.
std::optional<Fate> fate_of(const Graph& graph, Rank root, const Testimony& testimony) {
  const std::optional<Fate> fate = first_fate_of(graph, root, testimony);
  const RankState* const state = state_of(graph.run, root);
  if (fate != Fate::kDied && fate != Fate::kExited) {
    return fate;
  }
  const bool open = graph.end.may_follow_another(*state, graph.search.victims_of({root})) ||
                    graph.run.given_up.contains(root);
  return !open ? fate : fate == Fate::kExited ? Fate::kPerhapsExited : Fate::kPerhapsDied;
}

// The repair that blaming them implies: they go on.  It frees nobody who also waits for another
// that has died, and that nothing found is about.
bool would_free_all(const std::vector<Hang>& found, const std::vector<Wait>& waits,
                    const Hang& hang) {
  const std::vector<Awaited>& awaited = waits[hang.wait].awaited;
  return std::all_of(awaited.begin(), awaited.end(), [&](const Awaited& other) {
    return !other.entered || other.held_up ||
           std::any_of(found.begin(), found.end(), [&](const Hang& one) {
             return contains(one.roots, other.rank) || contains(one.victims, other.rank);
           });
  });
}

bool has_pending_operations(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  return std::any_of(
      trace.communicators.begin(), trace.communicators.end(), [&](const CommunicatorText& text) {
        return text.size != 1 && !text.recent.empty() && !finished(trace, text.recent.back());
      });
}

// Its host is inside NCCL, or waits for a GPU that has operations of NCCL to do, and why is not
// seen: it is held up rather than elsewhere.  From before the others gave up, if they did.
bool is_blocked(const Run& run, Rank rank, const Wait& wait) {
  const RankState* state = state_of(run, rank);
  if (state == nullptr) {
    return false;
  }
  const TimeNs nccl = blocked_in_nccl(run, *state);
  const TimeNs cuda = has_pending_operations(run, *state) ? blocked_in_cuda(run, *state) : 0;
  const auto for_long = [&](TimeNs since) {
    return since != 0 && elapsed(since, known_until(run, *state)) >= run.hang_after &&
           std::any_of(wait.waiters.begin(), wait.waiters.end(),
                       [&](const Waiter& waiter) { return since <= waiter.until; });
  };
  return for_long(nccl) || for_long(cuda);
}

void keep_what_counts(const Run& run, const std::vector<Wait>& all, std::vector<Wait>& waits) {
  std::set<Rank> stuck;
  for (size_t i = 0; i < waits.size(); ++i) {
    Wait& wait = waits[i];
    std::erase_if(wait.waiters, [&](const Waiter& waiter) {
      return !waited_at_its_end(run, all, all[i], waiter);
    });
    for (const Waiter& waiter : wait.waiters) {
      stuck.insert(waiter.rank);
    }
  }
  // Who was stuck when it died is nobody's reason: the others would be stuck without that.
  for (Wait& wait : waits) {
    std::erase_if(wait.awaited, [&](const Awaited& awaited) {
      return awaited.entered && !awaited.held_up && stuck.contains(awaited.rank);
    });
  }
  std::erase_if(waits,
                [](const Wait& wait) { return wait.waiters.empty() || wait.awaited.empty(); });
}

std::vector<Hang> hangs_with_roots(const Graph& graph) {
  std::map<std::pair<size_t, Fate>, Hang> hangs;
  for (const Rank rank : graph.search.roots()) {
    const Testimony testimony = testimony_about(graph, rank);
    const std::optional<Fate> fate = fate_of(graph, rank, testimony);
    if (!fate) {
      continue;
    }
    Hang& hang = hangs[{testimony.wait, *fate}];
    hang.wait = testimony.wait;
    hang.fate = *fate;
    hang.roots.push_back(rank);
    hang.waited = std::max(hang.waited, testimony.waited);
    hang.witnessed = std::max(hang.witnessed, testimony.witnessed);
    hang.entered = testimony.all_entered && (hang.roots.size() == 1 || hang.entered);
    // One that waits behind its own part is held up by nothing else; nor is one that is stopped.
    hang.blocked =
        hang.blocked ||
        (*fate == Fate::kAlive && is_blocked(graph.run, rank, graph.search.waits[testimony.wait]) &&
         !graph.search.waits_of.contains(rank) &&
         !was_stopped_first(graph.run, *state_of(graph.run, rank), testimony.start));
  }
  std::vector<Hang> found;
  for (auto& [key, hang] : hangs) {
    hang.victims = graph.search.victims_of(hang.roots);
    found.push_back(std::move(hang));
  }
  return found;
}

// Who waits for a rank that was ended because another had failed waits for that one.
void add_victims_of_consequences(const Graph& graph, std::vector<Hang>& found) {
  for (const Rank rank : graph.search.roots()) {
    const RankState* const state = state_of(graph.run, rank);
    const Ranks waiting = graph.search.victims_of({rank});
    const RankEnd* const first =
        state == nullptr ? nullptr : graph.end.failure_before(*state, waiting);
    const auto hang = std::find_if(found.begin(), found.end(), [&](const Hang& one) {
      return first != nullptr && contains(one.roots, first->state->rank);
    });
    if (hang != found.end() && !contains(hang->roots, rank)) {
      std::for_each(waiting.begin(), waiting.end(),
                    [&](Rank victim) { insert(hang->victims, victim); });
    }
  }
}

// Since the last of them came to wait, the cycle has been closed.
std::optional<Hang> hang_in_cycle(const Run& run, const WaitSearch& search, const Ranks& cycle) {
  Hang hang;
  hang.fate = Fate::kCycle;
  hang.roots = cycle;
  bool first = true;
  for (size_t i = 0; i < search.waits.size(); ++i) {
    for (const Waiter& waiter : search.waits[i].waiters) {
      const TimeNs waited = elapsed(waiter.since, waiter.until);
      const bool of_cycle =
          contains(cycle, waiter.rank) &&
          std::any_of(search.waits[i].awaited.begin(), search.waits[i].awaited.end(),
                      [&](const Awaited& awaited) { return contains(cycle, awaited.rank); });
      if (of_cycle) {
        hang.wait = first ? i : hang.wait;
        hang.waited = first ? waited : std::min(hang.waited, waited);
        first = false;
      }
    }
  }
  hang.victims = cycle;
  for (const Rank rank : search.victims_of(cycle)) {
    insert(hang.victims, rank);
  }
  return first || hang.waited < run.hang_after ? std::nullopt : std::optional(hang);
}

// Ranks that wait for each other, and for nobody else.
std::vector<Ranks> cycles_in(const WaitSearch& search) {
  const Ranks ranks = search.all();
  const Ranks roots = search.roots();
  std::vector<Ranks> cycles = WaitWalk(ranks, search.waits).ends();
  std::erase_if(cycles, [&](const Ranks& cycle) {
    return cycle.size() == 1 || std::any_of(cycle.begin(), cycle.end(),
                                            [&](Rank rank) { return contains(roots, rank); });
  });
  return cycles;
}

}  // namespace

std::vector<Hang> find_hangs(const Run& run, std::vector<Wait>& waits) {
  const std::vector<Wait> all = waits;
  keep_what_counts(run, all, waits);
  const WaitSearch search(waits);
  const JobEnd end(run);
  std::vector<Hang> found = hangs_with_roots({run, search, end});
  add_victims_of_consequences({run, search, end}, found);
  for (const Ranks& cycle : cycles_in(search)) {
    if (const auto hang = hang_in_cycle(run, search, cycle)) {
      found.push_back(*hang);
    }
  }
  for (Hang& hang : found) {
    if (hang.fate == Fate::kDied && !would_free_all(found, waits, hang)) {
      hang.fate = Fate::kPerhapsDied;
    }
  }
  for (Hang& hang : found) {
    hang.divergences = reasons_for(run, waits, hang);
    hang.blocked = hang.blocked && hang.divergences.empty();
  }
  // Who has issued all its parts, each as the others did, is nobody's reason.
  std::erase_if(found, [](const Hang& hang) {
    return hang.fate == Fate::kAlive && hang.entered && hang.divergences.empty();
  });
  // What holds them up is most likely what is wrong elsewhere.
  if (std::any_of(found.begin(), found.end(), [](const Hang& hang) { return !hang.blocked; })) {
    std::erase_if(found, [](const Hang& hang) { return hang.blocked; });
  }
  return found;
}

}  // namespace traintrace
