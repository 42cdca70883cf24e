// One-dimensional copies from and to arrays.
#include "cuda/copy.h"
#include "cuda/copy_submit.h"
#include "cuda/per_thread.h"

namespace simgpu {
namespace {

struct Bytes {
  CUDA_MEMCPY3D copy;

  explicit Bytes(size_t bytes) : copy(linear_copy(0, 0, bytes)) {}
  Bytes& from_host(const void* address) {
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = address;
    return *this;
  }
  Bytes& from_device(CUdeviceptr address) {
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = address;
    return *this;
  }
  Bytes& from_array(CUarray array, size_t offset) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.srcXInBytes = offset;
    return *this;
  }
  Bytes& to_host(void* address) {
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = address;
    return *this;
  }
  Bytes& to_device(CUdeviceptr address) {
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = address;
    return *this;
  }
  Bytes& to_array(CUarray array, size_t offset) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.dstXInBytes = offset;
    return *this;
  }
};

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemcpyDtoA(CUarray to, size_t to_offset, CUdeviceptr from, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(Bytes(bytes).from_device(from).to_array(to, to_offset).copy);
}

extern "C" CUresult cuMemcpyAtoD(CUdeviceptr to, CUarray from, size_t from_offset, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(Bytes(bytes).from_array(from, from_offset).to_device(to).copy);
}

extern "C" CUresult cuMemcpyHtoA(CUarray to, size_t to_offset, const void* from, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(Bytes(bytes).from_host(from).to_array(to, to_offset).copy);
}

extern "C" CUresult cuMemcpyAtoH(void* to, CUarray from, size_t from_offset, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(Bytes(bytes).from_array(from, from_offset).to_host(to).copy);
}

extern "C" CUresult cuMemcpyAtoA(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                                 size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return copy_now(Bytes(bytes).from_array(from, from_offset).to_array(to, to_offset).copy);
}

extern "C" CUresult cuMemcpyHtoAAsync(CUarray to, size_t to_offset, const void* from, size_t bytes,
                                      CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return copy_async(Bytes(bytes).from_host(from).to_array(to, to_offset).copy, stream);
}

extern "C" CUresult cuMemcpyAtoHAsync(void* to, CUarray from, size_t from_offset, size_t bytes,
                                      CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return copy_async(Bytes(bytes).from_array(from, from_offset).to_host(to).copy, stream);
}

SIMGPU_PER_THREAD(cuMemcpyDtoA, cuMemcpyDtoA_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpyAtoD, cuMemcpyAtoD_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpyHtoA, cuMemcpyHtoA_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpyAtoH, cuMemcpyAtoH_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpyAtoA, cuMemcpyAtoA_v2_ptds);
SIMGPU_PER_THREAD(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2_ptsz);
SIMGPU_PER_THREAD(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2_ptsz);
