// NCCL operations that were captured into CUDA graphs.  They do not run when they are called; each
// launch of the graph runs them once more, and counts them then (25 ns each, 2 ns for a graph
// without any).
#pragma once

#include "interpose/tables/operations.h"

namespace traintrace {

// A new capture, to be ended by finish_capture or drop_capture.  Never 0; where there is no room,
// its operations are lost and counted, but not taken for ones that run.
uint32_t begin_capture() noexcept;
bool is_under_way(uint32_t capture) noexcept;
void capture_operation(uint32_t capture, const OperationRequest& request) noexcept;
void finish_capture(uint32_t capture, uint64_t graph) noexcept;
void drop_capture(uint32_t capture) noexcept;

void captures_start() noexcept;
void captures_drop() noexcept;

}  // namespace traintrace
