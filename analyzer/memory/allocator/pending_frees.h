// Blocks of PyTorch's allocator that were freed while streams still worked on them.
#pragma once

#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct PendingFree {
  int device = -1;
  uint64_t address = 0, bytes = 0;
  TimeNs freed = 0;
  TimeNs done = 0;  // when the allocator could have it again; 0: not yet
};

// By device, address and time.
std::vector<PendingFree> pending_frees(const ProcessTrace& trace);

}  // namespace traintrace
