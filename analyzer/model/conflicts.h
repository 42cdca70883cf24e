// What divergences (divergences.h) do to the wait-for graph: NCCL matched calls that do not belong
// together, so that some of those who issued them wait for ever.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Adds who waits in the first collective of each communicator that not all issued alike, and takes
// out what those who issued something else seem to wait for there.
void add_conflict_waits(const Run& run, std::vector<Wait>& waits);

// In Run::divergences: those that are the reason for that hang.
std::vector<size_t> reasons_for(const Run& run, const Wait& wait, const Hang& hang);

}  // namespace traintrace
