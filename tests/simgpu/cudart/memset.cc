// Sets of every shape.
#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {
namespace {

unsigned char byte(int value) {
  return static_cast<unsigned char>(value);
}

// Calls set(address, rows) for as few blocks of rows as the volume has: slices that lie back to
// back are one block.
template <class Set>
Status for_each_block(const cudaPitchedPtr& memory, const cudaExtent& extent, Set set) {
  if (extent.width > memory.pitch || (extent.depth > 1 && extent.height > memory.ysize)) {
    return cudaErrorInvalidValue;
  }
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) {
    return cudaSuccess;
  }
  if (extent.height == memory.ysize || extent.depth == 1) {
    return set(address(memory.ptr), extent.height * extent.depth);
  }
  for (size_t slice = 0; slice < extent.depth; ++slice) {
    SIMGPU_TRY(set(address(memory.ptr) + slice * memory.pitch * memory.ysize, extent.height));
  }
  return cudaSuccess;
}

}  // namespace

SIMGPU_RT_STREAM(context, cudaMemset, _ptds, (void* memory, int value, size_t bytes),
                 (memory, value, bytes)) {
  return bytes == 0 ? Status(cudaSuccess) : calls.cuMemsetD8(address(memory), byte(value), bytes);
}

SIMGPU_RT_STREAM(context, cudaMemsetAsync, _ptsz,
                 (void* memory, int value, size_t bytes, cudaStream_t stream),
                 (memory, value, bytes, stream)) {
  return bytes == 0 ? Status(cudaSuccess)
                    : calls.cuMemsetD8Async(address(memory), byte(value), bytes, stream);
}

SIMGPU_RT_STREAM(context, cudaMemset2D, _ptds,
                 (void* memory, size_t pitch, int value, size_t width, size_t height),
                 (memory, pitch, value, width, height)) {
  return width == 0 || height == 0
             ? Status(cudaSuccess)
             : calls.cuMemsetD2D8(address(memory), pitch, byte(value), width, height);
}

SIMGPU_RT_STREAM(context, cudaMemset2DAsync, _ptsz,
                 (void* memory, size_t pitch, int value, size_t width, size_t height,
                  cudaStream_t stream),
                 (memory, pitch, value, width, height, stream)) {
  return width == 0 || height == 0
             ? Status(cudaSuccess)
             : calls.cuMemsetD2D8Async(address(memory), pitch, byte(value), width, height, stream);
}

SIMGPU_RT_STREAM(context, cudaMemset3D, _ptds,
                 (cudaPitchedPtr memory, int value, cudaExtent extent), (memory, value, extent)) {
  return for_each_block(memory, extent, [&](CUdeviceptr start, size_t rows) {
    return calls.cuMemsetD2D8(start, memory.pitch, byte(value), extent.width, rows);
  });
}

SIMGPU_RT_STREAM(context, cudaMemset3DAsync, _ptsz,
                 (cudaPitchedPtr memory, int value, cudaExtent extent, cudaStream_t stream),
                 (memory, value, extent, stream)) {
  return for_each_block(memory, extent, [&](CUdeviceptr start, size_t rows) {
    return calls.cuMemsetD2D8Async(start, memory.pitch, byte(value), extent.width, rows, stream);
  });
}

}  // namespace simgpu::cudart
