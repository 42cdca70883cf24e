// Sends and receives that name another peer than the one that waits for them.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Adds those where both sides have been without an answer for --hang-after, and the peer of one
// call is all that would have to change.
void find_wrong_peers(const Run& run, std::vector<Divergence>& found);

// Makes one of two such faults that are the two ends of it: a message left out on one channel, and
// one in excess, of the same size, on another.
void join_wrong_peers(const Run& run, std::vector<Divergence>& faults);

}  // namespace traintrace
