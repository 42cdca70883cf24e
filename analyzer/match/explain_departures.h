// Hangs for which it is known which rank called something else than it should have.
#pragma once

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"

namespace traintrace {

// What is known besides the calls.
enum class DeparturesFrom : uint8_t {
  kOrder,    // in which order they were issued
  kStreams,  // and on which streams they lie, so that who waits for whom is known for certain
};

// If one rank departed from what its twins called, and putting that right would free everybody:
// then that is the only root of `graph`.  Where the streams are known it must also be clear which
// call was left out, made in excess or changed; and if that is longer ago than tables go, the event
// records of those that hold each other up are read (`read_events` may be null).
void explain_by_departures(Run& run, DeparturesFrom known, const ReadEvents& read_events,
                           WaitGraph& graph);

// Where streams are known, and one rank seems to have left out a call or made one in excess, or to
// be all that the others lack while it waits in something else.  If it parted from the ranks that
// run the same program, and putting that right frees more than it holds up, what it called instead
// is the only root of `graph`.
void correct_by_departures(Run& run, const ReadEvents& read_events, WaitGraph& graph);

}  // namespace traintrace
