// Times of a trace, told by another clock.
#pragma once

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Adds `by` to all times of the trace, also to when its machine was started: what is read of its
// file later with that as ReadOptions::booted is on the same clock.
void move_times(ProcessTrace& trace, TimeNs by);

}  // namespace traintrace
