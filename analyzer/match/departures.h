// Ranks that called something else than the ranks that run the same program.
//
// In one stage of a pipeline all ranks issue the same calls, each on communicators of its own.  So
// a rank that departs from that is found without asking what came of it, and across communicators:
// the others are right if they are more, or if it is the rank itself that did otherwise than each
// time before.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/match/edits.h"
#include "analyzer/match/program.h"

namespace traintrace {

// Why it is that rank, and not those that it parts from.
enum class DepartureTold : uint8_t {
  kByMajority,  // they are more
  // As many did the one as the other:
  kByHabit,     // its own calls before that tell
  kBySiblings,  // other groups of that kind, of other ranks, called what the twin did
  kByPeers,  // the other side of the message tells: the peers of both have made it, or neither has
};

struct Departure {
  Rank rank;
  size_t at = 0;       // in its calls: where it parts from the others
  Rank twin;           // one of those that agree with each other
  size_t twin_at = 0;  // in the calls of that one
  Ranks twins;         // all of those; kBySiblings: and the ranks of the other groups
  Ranks alike;         // of its role, which made the same calls as it
  DepartureTold told = DepartureTold::kByMajority;
  CallEdit edit;
};

// `suspects`: ranks of which something else tells that they called otherwise than others; that
// decides where nothing here does.
std::vector<Departure> departures_of(const Run& run, const std::vector<Program>& programs,
                                     const Ranks& suspects = {});

}  // namespace traintrace
