// What the framework said of a kernel of NCCL.
#pragma once

#include <cstdint>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Of the work with that correlation, which belongs to the timeline; null: nothing was said.
const CollectiveNote* collective_note(const Timeline& timeline, uint64_t correlation);

}  // namespace traintrace
