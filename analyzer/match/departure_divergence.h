// A departure as all findings about calls that differ have it.
#pragma once

#include <optional>

#include "analyzer/match/departures.h"

namespace traintrace {

// None: the two calls have nothing in common that could be said of them.
std::optional<Divergence> divergence_of(const Run& run, const std::vector<Program>& programs,
                                        const Departure& departure);

}  // namespace traintrace
