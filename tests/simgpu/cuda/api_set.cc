// Sets of linear memory.
#include "cuda/copy_submit.h"
#include "cuda/per_thread.h"

namespace simgpu {
namespace {

CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr to, size_t pitch, unsigned value, unsigned element_bytes,
                               size_t width, size_t height) {
  return {to, pitch, value, element_bytes, width, height};
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  SIMGPU_CONTEXT_ENTER();
  return set_now(set_of(to, 0, value, 1, count, 1));
}

extern "C" CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                    CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return set_async(set_of(to, 0, value, 1, count, 1), stream);
}

extern "C" CUresult cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                 size_t height) {
  SIMGPU_CONTEXT_ENTER();
  return set_now(set_of(to, pitch, value, 1, width, height));
}

extern "C" CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value,
                                      size_t width, size_t height, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return set_async(set_of(to, pitch, value, 1, width, height), stream);
}

extern "C" CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  SIMGPU_CONTEXT_ENTER();
  return set_now(set_of(to, 0, value, 2, count, 1));
}

extern "C" CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                     CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return set_async(set_of(to, 0, value, 2, count, 1), stream);
}

extern "C" CUresult cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                  size_t height) {
  SIMGPU_CONTEXT_ENTER();
  return set_now(set_of(to, pitch, value, 2, width, height));
}

extern "C" CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value,
                                       size_t width, size_t height, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return set_async(set_of(to, pitch, value, 2, width, height), stream);
}

extern "C" CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  SIMGPU_CONTEXT_ENTER();
  return set_now(set_of(to, 0, value, 4, count, 1));
}

extern "C" CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                                     CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return set_async(set_of(to, 0, value, 4, count, 1), stream);
}

extern "C" CUresult cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                                  size_t height) {
  SIMGPU_CONTEXT_ENTER();
  return set_now(set_of(to, pitch, value, 4, width, height));
}

extern "C" CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                                       size_t height, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return set_async(set_of(to, pitch, value, 4, width, height), stream);
}

SIMGPU_PER_THREAD(cuMemsetD8, cuMemsetD8_v2_ptds);
SIMGPU_PER_THREAD(cuMemsetD8Async, cuMemsetD8Async_ptsz);
SIMGPU_PER_THREAD(cuMemsetD2D8, cuMemsetD2D8_v2_ptds);
SIMGPU_PER_THREAD(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz);
SIMGPU_PER_THREAD(cuMemsetD16, cuMemsetD16_v2_ptds);
SIMGPU_PER_THREAD(cuMemsetD16Async, cuMemsetD16Async_ptsz);
SIMGPU_PER_THREAD(cuMemsetD2D16, cuMemsetD2D16_v2_ptds);
SIMGPU_PER_THREAD(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz);
SIMGPU_PER_THREAD(cuMemsetD32, cuMemsetD32_v2_ptds);
SIMGPU_PER_THREAD(cuMemsetD32Async, cuMemsetD32Async_ptsz);
SIMGPU_PER_THREAD(cuMemsetD2D32, cuMemsetD2D32_v2_ptds);
SIMGPU_PER_THREAD(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz);
