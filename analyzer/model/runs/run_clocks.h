// The clocks of a run's hosts.  Times of one machine are on one clock; those of two machines may be
// compared only once it is known what their clocks show at one moment, and to within what.
//
// Such moments are the ends of operations in which everybody needs everybody: none is over before
// the last member has entered it.  Between the last entry on a host and the first end that was seen
// there, its clock showed the moment at which all had entered.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// What is in no relation to anything: more than any difference of times.
inline constexpr TimeNs kNoCommonClock = TimeNs{1} << 62;

// Finds the clocks of Run::processes and moves all times of these to one of them.  Sets
// Run::clocks, Run::clock_of and Run::skews.  The ends of operations must be as recorded, so before
// anything is inferred.
void align_clocks_of(Run& run);

// Once that is done: by how much a difference between times of these two may be wrong; 0 on one
// machine, kNoCommonClock where nothing brings their clocks together.
TimeNs uncertainty_between(const Run& run, const ProcessTrace& a, const ProcessTrace& b);

// The run is known to have gone on until then, as the clock of that process shows it: the latest
// sign of life of all that can be compared with it, less what that may be wrong by.
TimeNs end_for(const Run& run, const ProcessTrace& trace);

// It is known to have been there until then, and to have done no more than is recorded.
TimeNs known_until(const Run& run, const RankState& state);

// What was added to the times of that process: what others say of its host has it not.
TimeNs moved_by(const Run& run, const ProcessTrace& trace);

}  // namespace traintrace
