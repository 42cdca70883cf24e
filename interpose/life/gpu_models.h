// Which GPUs the process sees, as facts: `gpu-0` is "9.0 NVIDIA H100 80GB HBM3", its compute
// capability and its name.  Part of the GPU's timeline: nobody else needs it.
#pragma once

#include "format/schema.h"
#include "interpose/record/thread.h"

namespace traintrace {

// Keeps the functions to ask by, of a library that stays loaded.  Calls nothing.
void gpu_models_sought(format::Library library, void* handle) noexcept;

// Once for each trace.  Asks the driver, so only on a thread of the job that has just waited for
// the GPU; what is asked needs no context and makes none.
void define_gpu_models(ThreadState& thread) noexcept;

void gpu_models_start() noexcept;

}  // namespace traintrace
