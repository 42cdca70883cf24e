// Which batches ranks have sent to their GPUs that others have sent, too, or that did not change.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analyzer/numbers/numbers.h"

namespace traintrace {

// Of one place in the code, those of all ranks.
using PlaceBatches = std::vector<const BatchSeries*>;
// Not of places that send what a module consists of, and only of Python: of native code the
// innermost function is known alone, which may be a helper that is called for everything.
std::vector<PlaceBatches> batches_by_place(const Numbers& numbers);

// Indices of the batches that were not among the 64 before: masks and positions that are sent again
// and again, and what is read again after a short while, are none of them.
std::vector<size_t> changing_batches(const BatchSeries& series);

// Two ranks that sent kFewestSame changing batches or more from one line before that time, and none
// that the other one sent, too.
bool sent_different_data(const Numbers& numbers, Rank a, Rank b, TimeNs until);

// Of lines from which that rank has sent kFewestSame changing batches or more, and no other rank
// any of these.
PlaceBatches own_batches(const Numbers& numbers, Rank rank);

// Ranks that have sent kFewestSame changing batches or more in the same order at the same time.
struct SameBatches {
  Ranks ranks;
  const BatchSeries* series;  // of the first of these
  size_t count;               // of its batches
  size_t first, last;         // the first and the last of these in it
};
// Of one place; each set of ranks once, with most batches first.  All other ranks that send from
// there have sent as many changing ones in that time.  Not what is sent before the first
// step, as weights are: these batches have collectives between them.
std::vector<SameBatches> same_batches(const PlaceBatches& all, const Numbers& numbers);

// From `first` on the rank has sent the same `distinct` batches, at least kFewestStuck times.
struct StuckBatches {
  const BatchSeries* series;
  size_t first;
  size_t distinct;
  // What the rank sends from another line changes from step to step all the while, so its data have
  // not come to an end: this may be something that is computed, and rightly the same.
  const BatchSeries* still_changing;  // nullptr: nothing does
};
// Those that changed before, while all others at that place still change.  Not where the size of a
// batch says what it is on all ranks, as with the positions 0 to n: these are no data.
std::vector<StuckBatches> stuck_batches(const PlaceBatches& all, const Numbers& numbers);

}  // namespace traintrace
