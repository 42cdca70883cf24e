// What divergences (divergences.h) do to the wait-for graph: NCCL matched calls that do not belong
// together, so that some of those who issued them wait for ever.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Adds who waits in the first collective of that communicator that not all issued alike, and takes
// from `waits`, from `before` on, what those who issued it otherwise seem to wait for behind it.
void add_conflict_waits(const Run& run, size_t communicator, size_t before,
                        std::vector<Wait>& waits);

// In Run::divergences: those that are the reason for that hang.
std::vector<size_t> reasons_for(const Run& run, const Wait& wait, const Hang& hang);

}  // namespace traintrace
