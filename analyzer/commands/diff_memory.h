// The memory of two runs, rank by rank.
#pragma once

#include <vector>

#include "analyzer/memory/memory_diff.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Of ranks whose peaks differ, those first of which they differ most.  Reads the events of a few.
std::vector<MemoryDiff> diff_memory(const Run& a, const Run& b);

}  // namespace traintrace
