// What PyTorch's allocator did for memory that grows.
#pragma once

#include <vector>

#include "analyzer/memory/allocator/allocator_history.h"
#include "analyzer/memory/history.h"

namespace traintrace {

// Takes out of `allocators` what was done for lines of the job whose memory grows: each new size
// that one tensor which is made ever larger needs, each retry where it filled the device, and holes
// that are apart because such memory lies between them.  That is what growth looks like to a cache,
// and no trouble of the cache's own.
void set_growth_aside(const ProcessTrace& trace, const MemoryHistory& history,
                      std::vector<AllocatorHistory>& allocators);

}  // namespace traintrace
