// Functions of the driver by name.
#include "cudart/api.h"

namespace simgpu::cudart {
namespace {

// The default means the flavour of the default stream that the caller was compiled for.
cuuint64_t lookup_flags(const StreamCalls& calls, unsigned long long flags) {
  if (flags != cudaEnableDefault) {
    return flags;
  }
  return &calls == &g_driver.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                        : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
}

// A name that the driver does not have is no failure: the pointer is null and the answer says why.
Status look_up(const char* name, void** function, unsigned version, cuuint64_t flags,
               cudaDriverEntryPointQueryResult* answer) {
  if (!name || !function || flags > cudaEnablePerThreadDefaultStream) {
    return cudaErrorInvalidValue;
  }
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *function = nullptr;
  const CUresult result =
      g_driver.get_proc_address(name, function, static_cast<int>(version), flags, &found);
  if (answer) {
    *answer = static_cast<cudaDriverEntryPointQueryResult>(found);
  }
  return result == CUDA_ERROR_NOT_FOUND ? Status(cudaSuccess) : Status(result);
}

}  // namespace

SIMGPU_RT_STREAM(driver, cudaGetDriverEntryPoint, _ptsz,
                 (const char* name, void** function, unsigned long long flags,
                  cudaDriverEntryPointQueryResult* answer),
                 (name, function, flags, answer)) {
  return look_up(name, function, kDefaultEntryPointVersion, lookup_flags(calls, flags), answer);
}

SIMGPU_RT_STREAM(driver, cudaGetDriverEntryPointByVersion, _ptsz,
                 (const char* name, void** function, unsigned version, unsigned long long flags,
                  cudaDriverEntryPointQueryResult* answer),
                 (name, function, version, flags, answer)) {
  return look_up(name, function, version, lookup_flags(calls, flags), answer);
}

}  // namespace simgpu::cudart
