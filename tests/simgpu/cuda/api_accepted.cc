// Calls that only tune a real part.  simgpu checks what they are given, and has nothing to tune.
#define CUDA_ENABLE_DEPRECATED
#include <cuda.h>

#include "common/entry.h"
#include "cuda/launch.h"
#include "cuda/per_thread.h"

using namespace simgpu;

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  SIMGPU_CONTEXT_ENTER();
  if (!config) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;  // the only size of recent parts
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig) {
  SIMGPU_CONTEXT_ENTER();
  return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig) {
  SIMGPU_CONTEXT_ENTER();
  return function && kernel_of(function)->alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Host and device see the same bytes at all times.
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget,
                                    CUflushGPUDirectRDMAWritesScope) {
  SIMGPU_CONTEXT_ENTER();
  return CUDA_SUCCESS;
}

// SIMGPU_DIFFERS(cuStreamAttachMemAsync): managed memory is visible everywhere; only the order on
// the stream counts
CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t, unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  int managed = 0;
  SIMGPU_TRY(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
  const bool known =
      flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE;
  if (!managed || !known) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return submit(*stream, nullptr);
}

SIMGPU_PER_THREAD(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz);

// Contexts used to be counted; a count above one never mattered to a program that balances its
// calls.
CUresult cuCtxAttach(CUcontext* context, unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  if (!context || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *context = current_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context) {
  SIMGPU_CONTEXT_ENTER();
  return context == current_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
