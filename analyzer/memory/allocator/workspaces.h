// Memory that PyTorch allocates for cuBLAS, and keeps for each thread and stream that multiplied:
// the line of the job on its stack is the one that happened to be first.
#pragma once

#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// By the names of PyTorch's functions on the stack.  Where its libraries were not there to look
// them up: a block of a workspace's size that libtorch_cuda asked the allocator for by itself, as
// no tensor is (those come by libtorch_cpu).
bool is_cublas_workspace(const ProcessTrace& trace, uint32_t stack, uint64_t bytes);

// The return addresses on that stack whose names tell it.
std::vector<uint64_t> frames_in_pytorch(const ProcessTrace& trace, uint32_t stack);

// Those that hold most, held most when an allocation failed, or allocated the largest blocks.
std::vector<uint32_t> stacks_that_hold_most(const ProcessTrace& trace);

}  // namespace traintrace
