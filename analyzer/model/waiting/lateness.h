// Ranks that came late to a collective in which the others waited for them.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/run.h"

namespace traintrace {

struct Lateness {
  size_t communicator = 0;
  uint64_t sequence = 0;
  Ranks late;          // fewer than the others
  Ranks held_up;       // late as well, but others held them up
  Ranks others;        // who came before, and stopped
  TimeNs from = 0;     // the last of the others came, or went on to something else
  TimeNs until = 0;    // the first of the late ones did
  uint64_t times = 1;  // how often it happened among the operations that are kept

  bool alone = true;  // nobody else was late elsewhere at the same time

  TimeNs by() const { return elapsed(from, until); }
};

// All members share a clock.  Where a source does not say the hosts, that is not known: no.
bool are_on_one_host(const Run& run, const Communicator& communicator);

// Into the first collective ranks come as their start took, so that this is nobody's fault.
enum class FirstCollective : uint8_t { kLeftOut, kCounted };

// Each time that it happened.  Several may have one cause.
std::vector<Lateness> find_all_lateness(const Run& run, FirstCollective first);

// What one lateness led to elsewhere is left out.  By time.
std::vector<Lateness> find_lateness(const Run& run);

}  // namespace traintrace
