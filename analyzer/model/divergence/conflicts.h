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

// Collectives met that do not belong together, and which they were is known.
bool is_conflict(const Divergence& divergence);

// In Run::divergences: those that are the reason for that hang, which is among `waits`.
std::vector<size_t> reasons_for(const Run& run, const std::vector<Wait>& waits, const Hang& hang);

}  // namespace traintrace
