#include "analyzer/model/ending.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/idle_host.h"
#include "analyzer/model/progress.h"

namespace traintrace {

bool exited_normally(const Run& run, const RankState& state) {
  return state.ending == Ending::kExited && trace_of(run, state).exit_status == 0;
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
      if (run.live) {
        return true;
      }
      break;
    case Ending::kUnknown:
      break;
  }
  // Who writes a dump is alive, and what comes after it is not in it.
  return !is_flight_dump(trace_of(run, state)) && elapsed(state.last_seen, run.end) > kDeadAfter;
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

TimeNs skew_between(const Run& run, const std::string& a, const std::string& b) {
  TimeNs worst = 0;
  for (const ClockSkew& skew : run.skews) {
    if ((skew.behind == a && skew.ahead == b) || (skew.behind == b && skew.ahead == a)) {
      worst = std::max(worst, skew.skew);
    }
  }
  return worst;
}

}  // namespace traintrace
