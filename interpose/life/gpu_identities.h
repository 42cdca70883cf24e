// Which GPUs the process sees, as facts that other tools can be joined by: `gpu-0-uuid` is
// "GPU-1f2e3d4c-..", `gpu-0-pci` is "0000:1b:00.0".  Numbers are the process's own: with
// CUDA_VISIBLE_DEVICES they are not those of NVML.  And how much memory there is, for when it runs
// out: `gpu-0-memory` in bytes.
#pragma once

#include "format/schema.h"
#include "interpose/record/thread.h"
#include "interpose/tables/tables.h"

namespace traintrace {

// Keeps the functions to ask by, of a library that stays loaded.  Calls nothing.
void gpu_identities_sought(format::Library library, void* handle) noexcept;

// Once for each trace.  Asks the driver, so only on a thread of the job of which a call has just
// succeeded: until the program, or a runtime for it, has called cuInit the driver answers nothing,
// and it is asked again.  What is asked needs no context and makes none.
void define_gpu_identities_slow(ThreadState& thread) noexcept;
extern bool g_gpu_identities_wanted;
inline void define_gpu_identities(ThreadState& thread) noexcept {
  if (load(g_gpu_identities_wanted)) [[unlikely]] {
    define_gpu_identities_slow(thread);
  }
}

// What the device has left, for a call of this thread that has just failed for want of memory: many
// programs never ask.  At most every 100 ms.  A failed allocation has asked the driver the same,
// and taken its locks, on this thread.
void ask_memory_left(ThreadState& thread, uint64_t ticks) noexcept;

void gpu_identities_start() noexcept;

}  // namespace traintrace
