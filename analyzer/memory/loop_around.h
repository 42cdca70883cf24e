// The loop around what repeats most often: layers repeat in a step as steps do in a job.
#pragma once

#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// When a place was called, one time after the other.
using CallTimes = std::vector<TimeNs>;

// How many of `inner` come between one call of `outer` and the next, if nearly always as many, two
// or more; 0: they do not.
size_t calls_in_each_round(const CallTimes& outer, const CallTimes& inner);

// Of `places`, one between whose calls equally many of `inner` come, two or more, and that finds as
// much memory in use each time, while `inner` does not: a step gives back what its layers take.  Of
// several the one with the fewest calls in a round, which is no evaluation or epoch.  Null: there
// is none, or memory says nothing against `inner`.
const CallTimes* loop_around(const ProcessTrace& trace, const std::vector<const CallTimes*>& places,
                             const CallTimes& inner);

}  // namespace traintrace
