// Which context a call works in.  The runtime brings up the driver and the primary context of the
// thread's device when first needed, and honours a context that the program made current itself.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "cudart/driver.h"
#include "cudart/status.h"

namespace simgpu::cudart {

struct ThreadState {
  int device = -1;                // selected by cudaSetDevice; -1: none yet
  CUcontext ready = nullptr;      // the context that need_context() last found in order
  uint64_t ready_generation = 0;  // and the value of g_generation then
  cudaError_t last_error = cudaSuccess;
  uint64_t error_generation = 0;  // g_generation when last_error was set
};
extern thread_local constinit ThreadState t_thread;

// Counts cudaDeviceReset and registrations of eagerly loaded modules: after either, every thread
// has to look at its context again.
extern std::atomic<uint64_t> g_generation;

inline Status need_nothing() {
  return cudaSuccess;
}

// The driver is loaded and initialised.
Status need_driver();

// True if need_context() has found this context in order and nothing was reset since.
inline bool is_ready(CUcontext context) {
  return context == t_thread.ready &&
         t_thread.ready_generation == g_generation.load(std::memory_order_acquire);
}

// As need_driver(), and the calling thread has a context.
Status need_context_slowly();
inline Status need_context() {
  CUcontext current = nullptr;
  if (__builtin_expect(t_thread.ready != nullptr, 1) &&
      g_driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && is_ready(current)) {
    return cudaSuccess;
  }
  return need_context_slowly();
}

// The device that calls of this thread go to.  Needs need_driver() only.
Status current_device(int& device);

// Retains the primary context of `device` once per process.
Status primary_context(int device, CUcontext& context);

}  // namespace simgpu::cudart
