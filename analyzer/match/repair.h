// Whether a verdict explains the hang: the calls of the rank that is blamed are put right, and what
// was issued is completed again, in the order in which it was issued.  Who waits for a host that
// may go on is not stuck.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/judge/frontier/standing.h"
#include "analyzer/match/departures.h"

namespace traintrace {

enum class Freed : uint8_t {
  kNobody,
  kSome,  // more than before, and nobody is stuck who was not
  kAll,   // nobody is stuck any more
};

// Of several ranks that departed together: all at once.
Freed freed_by_repair(const Run& run, const Standings& standings,
                      const std::vector<Program>& programs,
                      const std::vector<Departure>& departures);

}  // namespace traintrace
