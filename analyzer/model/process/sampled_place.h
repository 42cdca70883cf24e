// Where a rank was while it made no call, by the looks that the recorder itself takes then: newer
// than its last call, and there after its death as well.
#pragma once

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Fills RankState::sampled of `ranks`.  Where the tables come without records, those of a few
// processes are read.
void find_sampled_places(Run& run, const Ranks& ranks, const ReadEvents& read_events);

// The same for the ranks that others wait for; for all, where nobody is known to wait and all
// are silent.
void find_sampled_roots(Run& run, const ReadEvents& read_events);

}  // namespace traintrace
