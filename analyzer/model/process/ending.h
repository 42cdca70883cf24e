// Who ended before whom.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// It is known to be there no more: what is said of it is said in the past tense.
inline bool has_ended(const RankState& state) {
  return state.ending == Ending::kExited || state.ending == Ending::kGone;
}

// By a launcher, a scheduler or a person.
bool is_stop_signal(int signal);
bool exited_normally(const Run& run, const RankState& state);
bool exited_abnormally(const Run& run, const RankState& state);

// Others went on without it: it left an abnormal exit record, is gone while others run, or ended or
// was heard last kDeadAfter before the last of them.  Whether a silent one ended is not known; what
// it did since is not known either.
bool ended_early(const Run& run, const RankState& state);

// Its process is stopped (a signal, a debugger, its cgroup), and was before others had waited since
// `since` for long enough to make a hang: whoever stops a rank to look at a hang did not cause it.
bool was_stopped_first(const Run& run, const RankState& state, TimeNs since);

// When it aborted the communicator, if it had been for `hang_after` in the collective that it came
// to last; else 0.  Then its end is a consequence.
TimeNs gave_up(const Run& run, const Member& member);

// What somebody gave up after having waited for long is judged as it stood then; 0: nobody did.
TimeNs first_abort(const Run& run, const Communicator& communicator);

// What it did in a communicator that it recorded nothing about is not known: it left no trace, or
// parts of its trace cannot be read.
bool is_unknown(const Run& run, Rank rank);

// It ended early, and had not given up before.
bool died_waiting(const Run& run, const Member& member);

// The members that did, by when they were last there: who died later was stuck by then.
std::vector<size_t> by_death(const Run& run, const Communicator& communicator);

// It ended as a process does that was told of a failure: by a failing status, by abort(), or
// because it was asked to.  Not so: it crashed or was killed, or how it ended is not known.
bool may_have_given_up(const Run& run, const RankState& state);

// Of two that died: not after the other, as far as their clocks tell, and where they do not, how
// they ended.  A process takes all its ranks along when it ends.
bool may_have_died_first(const Run& run, const RankState& one, const RankState& other);

}  // namespace traintrace
