// What growing memory left in each step.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/memory/growth/stack_series.h"
#include "analyzer/memory/history.h"

namespace traintrace {

using LeftInStep = std::pair<int64_t, uint64_t>;  // step, bytes

// What was left in each step from `lower` on, but for those that left nothing.
std::vector<LeftInStep> left_by_step(const Steps& steps, const std::vector<LeftOver>& all,
                                     int64_t lower);

// Of the steps in which something was left, what came from one to the next.  The first left what
// its line has in use from then on, too, and the last may not be over: neither counts where there
// are enough others.  0: cannot be said.
uint64_t bytes_per_step(const std::vector<LeftInStep>& left);

// Each step left as much as the one before or more, and in the end far more: then what a step
// leaves on average is no figure that anybody sees in the job.  As above, the first and the last
// step do not count.
bool becomes_more(const std::vector<LeftInStep>& left);

}  // namespace traintrace
