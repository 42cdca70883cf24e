// Memory that PyTorch allocates for cuBLAS, and keeps for each thread and stream that multiplied:
// the line of the job on its stack is the one that happened to be first.
#pragma once

#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// By the names of PyTorch's functions on the stack, if they were looked up.
bool is_cublas_workspace(const ProcessTrace& trace, uint32_t stack);

// The return addresses on that stack whose names tell it.
std::vector<uint64_t> frames_in_pytorch(const ProcessTrace& trace, uint32_t stack);

// Those that hold most, held most when an allocation failed, or allocated the largest blocks.
std::vector<uint32_t> stacks_that_hold_most(const ProcessTrace& trace);

}  // namespace traintrace
