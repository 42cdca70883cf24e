// Root: what a running job looks like for a moment, and what does not mend itself.  A rank that its
// peers wait for may be at work, as long as nothing tells for how long they have waited.
#pragma once

#include "analyzer/judge/frontier/frontier_block.h"

namespace traintrace {

// Nothing but the order of calls makes them wait for each other.
bool is_all_issued(const WaitGraph& graph, const Ranks& cycle);

// Hangs that may be such a moment are none; what is waited in there becomes `within_limits`.
void leave_out_moments(const Run& run, const BlockedFrontiers& blocked, WaitGraph& graph);

}  // namespace traintrace
