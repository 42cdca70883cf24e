// The driver as the runtime sees it: a table of functions, filled by cuGetProcAddress_v2.
#pragma once
// Versioned types of all driver functions, whatever the default stream of this build is.
#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#include <atomic>

namespace simgpu::cudart {

// For rows whose typed declaration needs headers of graphics libraries; never called.
using DriverFunction = CUresult (*)();

// Functions that exist twice: for the legacy and for the per-thread default stream.
struct StreamCalls {
#define PROBE(name, version)
#define REQUEST(function, version, type, member)
#define STREAM(function, version, type, member) type member;
#define PER_THREAD(function, version, member)
#include "cudart/driver_requests.def"
#undef STREAM
#define STREAM(function, version, type, member)
};

struct Driver {
#undef REQUEST
#define REQUEST(function, version, type, member) type member;
#include "cudart/driver_requests.def"
#undef PROBE
#undef REQUEST
#undef STREAM
#undef PER_THREAD
  StreamCalls legacy;
  StreamCalls per_thread;
  // The entry point itself, as dlsym gave it.
  PFN_cuGetProcAddress_v12000 get_proc_address;
};

// Valid once driver_loaded(); constant from then on.  Functions that the driver lacks return
// CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER.
extern Driver g_driver;
extern std::atomic<bool> g_driver_loaded;

// Loads libcuda.so.1 and fills g_driver, once per process; false if there is no usable driver.
bool load_driver();

inline bool driver_loaded() {
  return g_driver_loaded.load(std::memory_order_acquire);
}

}  // namespace simgpu::cudart
