// Communicators whose members contradict each other when they create it.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

enum class CreationFault : uint8_t {
  kSize,    // members were told different numbers of ranks
  kRank,    // two of them the same rank
  kId,      // some the unique id of another communicator
  kOrder,   // some create first what the others create later: two communicators of the same ranks
  kDevice,  // two use one device
};

// The sides are in communicators of their own.
constexpr bool is_of_two(CreationFault fault) {
  return fault == CreationFault::kId || fault == CreationFault::kOrder;
}

struct CreationMismatch {
  CreationFault fault = CreationFault::kSize;
  size_t communicator = 0;
  size_t other = 0;  // is_of_two(): the communicator of the others
  Ranks culprits;    // nobody where it cannot be said
  Ranks waiting;     // of the others: whose creation is not done, or failed
  struct Side {
    Ranks ranks;
    std::string said;  // "4 ranks", "rank 2", "device 1"
  };
  std::vector<Side> sides;  // the deviants first
  TimeNs waited = 0;
  int error = 0;  // that NCCL gave; 0: none
};
std::vector<CreationMismatch> creation_mismatches(const Run& run);

// Waits in a creation that such a contradiction keeps from being done.
bool is_creation_mismatch(const Run& run, const Hang& hang);

}  // namespace traintrace
