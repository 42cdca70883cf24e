// Hangs for which it is known which rank called something else than it should have.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

enum class DeparturesIn : uint8_t {
  kCalls,     // all of them
  kMessages,  // sends and receives left out, in excess or of another peer
};

// If one rank departed from what its twins called, and putting that right would free everybody:
// then that is the only root of `graph`.
void explain_by_departures(const Run& run, DeparturesIn which, WaitGraph& graph);

}  // namespace traintrace
