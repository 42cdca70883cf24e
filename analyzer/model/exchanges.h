// How much the ranks gave to an all-to-all, and had room for, where a source says so.  Dumps of the
// Flight Recorder do, not which part of it is for whom.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/model/run.h"

namespace traintrace {

struct Exchanged {
  uint64_t sent = 0;  // elements
  uint64_t received = 0;
};

// By one rank.  `element`: Member::element.
std::optional<Exchanged> exchanged_in(const ProcessTrace& trace, size_t element,
                                      const OperationText& operation);

// By all members together, which nothing else holds up, where that does not agree: some rank gave
// what no other has room for, or has room for what none gave.  None: it agrees, or is not known of
// all.
std::optional<Exchanged> uneven_exchange(const Run& run, const Stall& stall);

}  // namespace traintrace
