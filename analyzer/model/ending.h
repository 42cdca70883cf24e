// Who ended before whom.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// The tracer's own thread writes a last-alive time each second: within that and as much again for
// a busy machine, nothing is said about who was last.
inline constexpr TimeNs kAliveUncertain = 2'000'000'000;

// It is known to be there no more: what is said of it is said in the past tense.
inline bool has_ended(const RankState& state) {
  return state.ending == Ending::kExited || state.ending == Ending::kGone;
}

bool exited_normally(const Run& run, const RankState& state);
bool exited_abnormally(const Run& run, const RankState& state);

// It ended, other than by a normal exit, while others went on: it left an abnormal exit record, is
// gone while others run, or was silent for kDeadAfter before the last of them.
bool ended_early(const Run& run, const RankState& state);

// When it aborted the communicator, if it had been for `hang_after` in the collective that it came
// to last; else 0.  Then its end is a consequence.
TimeNs gave_up(const Run& run, const Member& member);

// What somebody gave up after having waited for long is judged as it stood then; 0: nobody did.
TimeNs first_abort(const Run& run, const Communicator& communicator);

// By how much the clocks of these two hosts are known to contradict each other; 0: they do not.
TimeNs skew_between(const Run& run, const std::string& a, const std::string& b);

}  // namespace traintrace
