// The calls of a rank put right, from where it parted from those that run the same program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "analyzer/match/departures.h"
#include "analyzer/match/program.h"

namespace traintrace {

// A call as it would stand after the repair.
struct Issued {
  const OperationText* operation = nullptr;
  size_t communicator = 0;
  uint64_t sequence = 0;
  int peer = -1;
  uint32_t group = 0;
  size_t process = 0;  // of which it is a call
  bool added = false;  // by the repair
  bool met = false;    // a message: its other side is there
};
using Queue = std::deque<Issued>;

// All that the rank has called from there on, in the right order and rightly numbered: collectives
// by communicator, messages as they were.  None: that cannot be told.
std::optional<Queue> repaired_calls(const Run& run, const std::vector<Program>& programs,
                                    const Departure& departure);

}  // namespace traintrace
