// Ends of communicators that do not return.  NCCL allows itself to wait there for the other ranks
// of the machine, and promises it to nobody.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct OpenEnd {
  Rank rank;
  size_t process = 0;  // in Run::processes
  std::string call;    // ncclCommFinalize
  TimeNs since = 0;
  uint32_t stack = 0;
};

struct IncompleteEnd {
  size_t communicator = 0;
  std::vector<OpenEnd> waiting;  // by rank; they have nothing else to wait for there
  Ranks missing;                 // are there, on the same machine, and have not ended it
  TimeNs waited = 0;
};

// Those that no hang explains, by communicator.  Needs the events.
std::vector<IncompleteEnd> incomplete_ends(const Run& run);

}  // namespace traintrace
