// The first message of two ranks, each of which has long exchanged others: as a rule it was meant
// for another peer.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// Ranks wait for each other in what all of them have issued, but for one message: the first of a
// rank with a peer that does not answer it, be it on a communicator of the two or of more.  Then
// another of them waits for such a message of that rank, which issued it behind the first: it named
// another peer than it should have, or the other one left out its side.
void find_fresh_pairs(const Run& run, WaitGraph& graph);

}  // namespace traintrace
