// One-dimensional copies between linear memory.
#include "cuda/copy.h"
#include "cuda/copy_submit.h"
#include "cuda/per_thread.h"

namespace simgpu {
namespace {

CUDA_MEMCPY3D to_device(CUdeviceptr to, const void* from, size_t bytes) {
  CUDA_MEMCPY3D copy = linear_copy(to, 0, bytes);
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  return copy;
}

CUDA_MEMCPY3D to_host(void* to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy = linear_copy(0, from, bytes);
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  return copy;
}

CUDA_MEMCPY3D inside_devices(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy = linear_copy(to, from, bytes);
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  return copy;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(linear_copy(to, from, bytes));
}

extern "C" CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return copy_async(linear_copy(to, from, bytes), stream);
}

extern "C" CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(to_device(to, from, bytes));
}

extern "C" CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes,
                                      CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return copy_async(to_device(to, from, bytes), stream);
}

extern "C" CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(to_host(to, from, bytes));
}

extern "C" CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return copy_async(to_host(to, from, bytes), stream);
}

extern "C" CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(inside_devices(to, from, bytes));
}

extern "C" CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                      CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return copy_async(inside_devices(to, from, bytes), stream);
}

SIMGPU_PER_THREAD(cuMemcpy, cuMemcpy_ptds);
SIMGPU_PER_THREAD(cuMemcpyAsync, cuMemcpyAsync_ptsz);
SIMGPU_PER_THREAD(cuMemcpyHtoD, cuMemcpyHtoD_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2_ptsz);
SIMGPU_PER_THREAD(cuMemcpyDtoH, cuMemcpyDtoH_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2_ptsz);
SIMGPU_PER_THREAD(cuMemcpyDtoD, cuMemcpyDtoD_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2_ptsz);
