#include "cudart/driver.h"

#include <dlfcn.h>

#include <mutex>

namespace simgpu::cudart {
namespace {

// Stands in for a function that the driver lacks.  Called with any arguments: the x86-64 calling
// convention leaves their removal to the caller.
CUresult missing_function() {
  return CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
}

template <class F>
void request(F& function, const char* name, int version, cuuint64_t flags) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result = g_driver.get_proc_address(name, &found, version, flags, &answer);
  function = reinterpret_cast<F>(
      result == CUDA_SUCCESS && found ? found : reinterpret_cast<void*>(&missing_function));
}

void request_all() {
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  [[maybe_unused]] DriverFunction unused;
#define PROBE(name, version) request(unused, name, version, 0);
#define REQUEST(function, version, type, member) request(g_driver.member, #function, version, 0);
#define STREAM(function, version, type, member) \
  request(g_driver.legacy.member, #function, version, 0);
#define PER_THREAD(function, version, member) \
  request(g_driver.per_thread.member, #function, version, kPerThread);
#include "cudart/driver_requests.def"
}

}  // namespace

Driver g_driver;
std::atomic<bool> g_driver_loaded = false;

bool load_driver() {
  static std::once_flag& once = *new std::once_flag;
  std::call_once(once, [] {
    // Never closed: its threads run on while the process exits.
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    void* entry = library ? dlsym(library, "cuGetProcAddress_v2") : nullptr;
    if (entry) {
      g_driver.get_proc_address = reinterpret_cast<PFN_cuGetProcAddress_v12000>(entry);
      request_all();
      g_driver_loaded.store(true, std::memory_order_release);
    }
  });
  return driver_loaded();
}

}  // namespace simgpu::cudart
