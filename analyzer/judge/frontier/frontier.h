// Who waits for whom, of ranks of which nothing is known but what each issued, in which order, and
// what of it is complete: dumps of PyTorch's Flight Recorder.
//
// A rank's frontier is the oldest of its work that is not complete; its edges start there, and what
// it issued after that is a victim, never a cause.  Messages are matched by the oldest unfinished
// counterpart, which needs no history, so that a ring may have wrapped.  Completion seen by one
// member of a collective proves that all had entered it.  Ranks that are waited for and wait for
// nobody are where the trouble starts; so are ranks that wait for each other.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// Before version 2.2 dumps do not say the limits.  Shorter ones are rare, and a slow loader or file
// system is through sooner.
inline constexpr TimeNs kLeastLimit = 120'000'000'000;

// None of its processes recorded its streams and what its host did.
bool knows_order_only(const Run& run);

// Something tells when its dumps were made, so that it is known for how long anybody waits.
bool are_dumps_dated(const Run& run);

// In such a run.  No: its operations are within their time limits.
bool may_hang(const Run& run);

// As hangs and disagreements number them: those that the graph adds come after those of the run.
const Divergence& divergence_at(const Run& run, const WaitGraph& graph, size_t index);

}  // namespace traintrace
