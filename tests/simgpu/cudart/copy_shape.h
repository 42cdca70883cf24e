// Two-dimensional copies between linear memory and arrays, described for the driver.
#pragma once
#include <cuda.h>

#include "cudart/convert.h"
#include "cudart/status.h"

namespace simgpu::cudart {

class Shape2D {
 public:
  // Width in bytes.
  Shape2D(size_t width, size_t height, cudaMemcpyKind kind) : kind_(kind) {
    copy_.WidthInBytes = width;
    copy_.Height = height;
  }

  Shape2D& from(const void* memory, size_t pitch) {
    copy_.srcHost = memory;
    copy_.srcDevice = address(memory);
    copy_.srcPitch = pitch;
    return *this;
  }
  Shape2D& from(cudaArray_const_t array, size_t x_bytes, size_t y) {
    copy_.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy_.srcArray = driver_array(array);
    copy_.srcXInBytes = x_bytes;
    copy_.srcY = y;
    return *this;
  }
  Shape2D& to(void* memory, size_t pitch) {
    copy_.dstHost = memory;
    copy_.dstDevice = address(memory);
    copy_.dstPitch = pitch;
    return *this;
  }
  Shape2D& to(cudaArray_t array, size_t x_bytes, size_t y) {
    copy_.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy_.dstArray = driver_array(array);
    copy_.dstXInBytes = x_bytes;
    copy_.dstY = y;
    return *this;
  }

  // Linear ends get the memory type of the kind; rows must fit into their pitch.
  Status describe(CUDA_MEMCPY2D& copy) {
    CopyTypes types;
    SIMGPU_TRY(copy_types(kind_, types));
    if (copy_.srcMemoryType != CU_MEMORYTYPE_ARRAY) {
      copy_.srcMemoryType = types.source;
      if (copy_.WidthInBytes > copy_.srcPitch) {
        return cudaErrorInvalidPitchValue;
      }
    }
    if (copy_.dstMemoryType != CU_MEMORYTYPE_ARRAY) {
      copy_.dstMemoryType = types.target;
      if (copy_.WidthInBytes > copy_.dstPitch) {
        return cudaErrorInvalidPitchValue;
      }
    }
    copy = copy_;
    return cudaSuccess;
  }

 private:
  CUDA_MEMCPY2D copy_ = {};
  cudaMemcpyKind kind_;
};

inline bool is_empty(const CUDA_MEMCPY2D& copy) {
  return copy.WidthInBytes == 0 || copy.Height == 0;
}

template <class Copy3D>
bool is_empty(const Copy3D& copy) {
  return copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0;
}

}  // namespace simgpu::cudart
