// The three parts of block_frontiers, in this order; each adds to what those before it found.
#pragma once

#include "analyzer/judge/frontier/frontier_block.h"

namespace traintrace {

// Where each rank stands, and what tells that its GPU went on, stands still or is gone.
void find_nodes(const Run& run, BlockedFrontiers& blocked);
// Calls that met there and differ.
void find_disagreements(const Run& run, BlockedFrontiers& blocked);
// For whom each rank waits there.
void find_edges(const Run& run, BlockedFrontiers& blocked);

}  // namespace traintrace
