// Events that other processes see (cuIpcGetEventHandle).  Implemented in ipc.cc.
#pragma once
#include "cuda/state.h"

namespace simgpu {

struct SharedEvent;

// Makes `event` shareable; called when it is created with CU_EVENT_INTERPROCESS.
CUresult make_shared_event(Event& event);
// Records: numbers the recording at once and returns the work that completes it.
std::shared_ptr<const Work> shared_record_work(Event& event);
// Work that waits for the recordings made so far, in whatever process.
std::shared_ptr<const Work> shared_wait_work(Event& event);
// CUDA_SUCCESS or CUDA_ERROR_NOT_READY.
CUresult shared_query(Event& event);
// Blocks the host.
CUresult shared_synchronize(Event& event);

}  // namespace simgpu
