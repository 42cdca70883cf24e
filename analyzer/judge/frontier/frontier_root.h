// Root: the ends of the graph of who waits for whom, each with those that wait for it.
#pragma once

#include "analyzer/judge/frontier/frontier_block.h"

namespace traintrace {

WaitGraph roots_of(const Run& run, BlockedFrontiers blocked);

}  // namespace traintrace
