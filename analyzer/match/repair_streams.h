// Whether a verdict explains the hang, where streams are known: the rank that is blamed gets the
// calls that it should have made, and what can complete is found again (judge/completion.h).
#pragma once

#include <vector>

#include "analyzer/match/departures.h"
#include "analyzer/match/repair.h"
#include "analyzer/model/run.h"

namespace traintrace {

// `waits`: those of the run as it is.  The trace of the rank is exchanged for the time of the call.
Freed freed_in_streams(Run& run, const std::vector<Wait>& waits,
                       const std::vector<Program>& programs, const Departure& departure);

}  // namespace traintrace
