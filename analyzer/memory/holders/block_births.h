// When the blocks that were live at a moment had been allocated.
#pragma once

#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct BlockBirth {
  TimeNs time = 0;     // 0: before the records that are left, and not told elsewhere
  uint32_t after = 0;  // stack of the newest event before it that a line of the job made; 0: none
};

// Of each block of `failure.held`, in that order.  The allocation of a block that is handed out
// anew is the newest before the failure.
std::vector<BlockBirth> births_of(const ProcessTrace& trace, const OutOfMemoryText& failure);

}  // namespace traintrace
