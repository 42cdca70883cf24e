// Memory that becomes more with every evaluation, or whatever else a job does every so many steps.
#pragma once

#include <span>

#include "analyzer/memory/growth/stack_series.h"
#include "analyzer/memory/history.h"

namespace traintrace {

// All that one stack allocated in one step.
struct Round {
  int64_t step = 0;
  uint64_t bytes = 0, blocks = 0;
  uint64_t samples = 0;  // that say so; fewer than blocks where the history was thinned out
};

// The allocations of one stack of which none was ever freed, by step, those from `start` on; empty:
// some were freed.
std::vector<Round> rounds_of(const StackMemoryText& memory, const Steps& steps, int64_t start);

// The same of what was added to its one block (added_to_one).
std::vector<Round> rounds_of_additions(const StackMemoryText& memory, const Steps& steps,
                                       int64_t start);

// Whether the same is left every so many steps, at equal distances from the beginning to `end`.
// Far fewer rounds are judged than steps would have to be: only a rule of the job's own is as
// regular.  What a model holds, or one step, is not allocated by such a rule; but for the state of
// an optimizer where one layer after the other is unfrozen, which is not to be asked about here.
bool grows_by_rounds(std::span<const Round> rounds, int64_t start, int64_t end);

}  // namespace traintrace
