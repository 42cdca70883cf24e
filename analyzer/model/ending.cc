#include "analyzer/model/ending.h"

#include <signal.h>

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/idle_host.h"
#include "analyzer/model/progress.h"
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
         elapsed(known_until(state.life, run.end), run.end) > kDeadAfter;
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

namespace {

// By how much its host's clock was set while it ran.
TimeNs clock_step(const ProcessTrace& trace) {
  const bool known = trace.booted != 0 && trace.booted_at_first != 0;
  const TimeNs step = known ? elapsed(trace.booted_at_first, trace.booted) : 0;
  const TimeNs size = std::max(step, elapsed(step, 0));
  return size > kClockSlewed ? size : 0;
}

}  // namespace

TimeNs uncertainty_between(const Run& run, const ProcessTrace& a, const ProcessTrace& b) {
  if (!a.boot.empty() && a.boot == b.boot) {
    return 0;
  }
  TimeNs worst = 0;
  for (const ClockSkew& skew : run.skews) {
    if ((skew.behind == a.host && skew.ahead == b.host) ||
        (skew.behind == b.host && skew.ahead == a.host)) {
      worst = std::max(worst, skew.skew);
    }
  }
  return a.host == b.host ? worst : std::max({worst, clock_step(a), clock_step(b)});
}

}  // namespace traintrace
