// A message to a wrong peer, where each pair of ranks has a communicator of its own.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// Ranks wait for each other in what all of them have issued, but for one message: the first ever of
// a rank that has long exchanged others, with a peer that does not answer it.  Then another of them
// waits for such a message of that rank, which issued it behind the first: it named another peer
// than it should have, or the other one left out its side.
void find_fresh_pairs(const Run& run, WaitGraph& graph);

}  // namespace traintrace
