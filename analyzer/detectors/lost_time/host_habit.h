// Whether a host is late as a habit, where no timeline of the GPUs tells what its lateness cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/timeline/collectives/arrivals.h"

namespace traintrace {

// In ns: half of the time by which it was late comes from times when it was late by so much or
// more. The median of the times would be noise where a step has one long stall and many short ones.
int64_t usual_lateness(std::vector<int64_t> charges);

// Indices in Arrivals::list, from the second on.  Buckets of one backward pass follow each other
// while the GPUs are busy: a rank that is late to the first of them is as late to all, and to the
// others no host can be late on its own account.  So these are left out.  By the host's calls only.
std::vector<size_t> collectives_after_pauses(const Arrivals& arrivals);

// Late to most collectives after pauses, of which there are many, and by as much as it costs from
// the beginning to the end: a checkpoint or an evaluation now and then is none.
bool is_host_habit(const Arrivals& arrivals, const OwnLateness& lateness);

}  // namespace traintrace
