// What the rest of the driver asks of the memory part when a context goes away.
#pragma once
#include "cuda/state.h"

namespace simgpu {
// Frees everything that was allocated in `context`.  Its streams are drained.
void release_memory(Context& context);
// Charges what a context itself occupies (SIMGPU_CONTEXT_MB) to its device; release_memory gives it
// back. CUDA_ERROR_OUT_OF_MEMORY if it does not fit.
CUresult charge_context(Context& context);
// Lets pools return memory down to their thresholds; called after synchronisations.
void trim_pools(int device);
}  // namespace simgpu
