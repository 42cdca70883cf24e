// Whether a verdict explains the hang: the calls of the rank that is blamed are put right, and what
// was issued is completed again, in the order in which it was issued.  Everybody must come free, or
// wait for a host that may go on.
#pragma once

#include <vector>

#include "analyzer/judge/standing.h"
#include "analyzer/match/departures.h"

namespace traintrace {

bool would_free(const Run& run, const Standings& standings, const std::vector<Program>& programs,
                const Departure& departure);

}  // namespace traintrace
