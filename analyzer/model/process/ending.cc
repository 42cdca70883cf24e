#include "analyzer/model/process/ending.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {

bool exited_normally(const Run& run, const RankState& state) {
  return state.ending == Ending::kExited && trace_of(run, state).exit_status == 0;
}

bool is_stop_signal(int signal) {
  constexpr int kStopping[] = {SIGTERM, SIGINT, SIGHUP};
  return std::find(std::begin(kStopping), std::end(kStopping), signal) != std::end(kStopping);
}

bool exited_abnormally(const Run& run, const RankState& state) {
  return state.ending == Ending::kExited && trace_of(run, state).exit_status != 0;
}

bool ended_early(const Run& run, const RankState& state) {
  switch (state.ending) {
    case Ending::kRunning:
      return false;
    case Ending::kExited:
      return exited_abnormally(run, state);
    case Ending::kGone:
    case Ending::kUnknown:
      break;
  }
  if (state.ending == Ending::kGone && run.live) {
    return true;
  }
  // Who writes a dump is alive, and what comes after it is not in it.
  return !is_flight_dump(trace_of(run, state)) &&
         elapsed(known_until(run, state), end_for(run, trace_of(run, state))) > kDeadAfter;
}

bool was_stopped_first(const Run& run, const RankState& state, TimeNs since) {
  return state.life.halt != Halt::kNot && elapsed(since, state.life.last_seen) < run.hang_after;
}

TimeNs gave_up(const Run& run, const Member& member) {
  const CommunicatorText& text = text_of(run, member);
  const ProcessTrace& trace = run.processes[member.process];
  const OperationText* last = (text.flags & format::kAborted) != 0 && text.ended != 0
                                  ? collective_at(text, sequence_reached(trace, text))
                                  : nullptr;
  const bool waited = last != nullptr && !finished(trace, *last) &&
                      elapsed(last->enter, text.ended) >= run.hang_after;
  return waited ? text.ended : 0;
}

TimeNs first_abort(const Run& run, const Communicator& communicator) {
  TimeNs first = 0;
  for (const Member& member : communicator.members) {
    if (const TimeNs time = gave_up(run, member); time != 0) {
      first = first == 0 ? time : std::min(first, time);
    }
  }
  return first;
}

bool is_unknown(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  return state == nullptr || !trace_of(run, *state).errors.empty();
}

bool died_waiting(const Run& run, const Member& member) {
  return ended_early(run, *state_of(run, member.rank)) && gave_up(run, member) == 0;
}

std::vector<size_t> by_death(const Run& run, const Communicator& communicator) {
  std::vector<std::pair<TimeNs, size_t>> order;
  for (size_t i = 0; i < communicator.members.size(); ++i) {
    if (died_waiting(run, communicator.members[i])) {
      order.emplace_back(known_until(run, *state_of(run, communicator.members[i].rank)), i);
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> found;
  found.reserve(order.size());
  for (const auto& [time, i] : order) {
    found.push_back(i);
  }
  return found;
}

namespace {

// By a signal that somebody sends: the scheduler, a person, the kernel for want of memory.  0: not
// so, or that is not known.
int ended_from_outside_by(const Run& run, const RankState& state) {
  const int ended = trace_of(run, state).wait_status;
  const bool by_signal = state.ending == Ending::kGone && ended >= 0 && WIFSIGNALED(ended);
  return by_signal && (WTERMSIG(ended) == SIGKILL || is_stop_signal(WTERMSIG(ended)))
             ? WTERMSIG(ended)
             : 0;
}

// By the same hand, then: none of them is the reason for the others' end.
bool were_ended_together(const Run& run, const RankState& one, const RankState& other) {
  const TimeNs apart = elapsed(known_until(run, one), known_until(run, other));
  const int signal = ended_from_outside_by(run, one);
  return signal != 0 && signal == ended_from_outside_by(run, other) &&
         std::max(apart, -apart) <= kAliveUncertain;
}

}  // namespace

bool may_have_given_up(const Run& run, const RankState& state) {
  const int ended = trace_of(run, state).wait_status;
  return state.ending == Ending::kExited || ended < 0 || !WIFSIGNALED(ended) ||
         WTERMSIG(ended) == SIGABRT || is_stop_signal(WTERMSIG(ended));
}

bool may_have_died_first(const Run& run, const RankState& one, const RankState& other) {
  const TimeNs off = uncertainty_between(run, trace_of(run, one), trace_of(run, other));
  const TimeNs ahead = elapsed(known_until(run, one), known_until(run, other));
  if (one.process == other.process || were_ended_together(run, one, other)) {
    return true;
  }
  const bool decided = off == 0 || ahead < -off || ahead > off;
  return decided ? ahead > 0 : !may_have_given_up(run, one) || may_have_given_up(run, other);
}

}  // namespace traintrace
