// Hangs for which it is known which rank called something else than it should have.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// If one rank departed from what its twins called, and putting that right would free everybody:
// then that is the only root of `graph`.
void explain_by_departures(const Run& run, WaitGraph& graph);

}  // namespace traintrace
