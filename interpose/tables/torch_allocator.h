// The functions by which PyTorch's caching allocator tells its profiler of blocks.
#pragma once

namespace traintrace {

// By the tracer's own thread: the library that we go on to stays loaded.
void torch_allocator_tick() noexcept;

}  // namespace traintrace
