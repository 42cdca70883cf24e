// Types of the runtime expressed as types of the driver, and back.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "cudart/status.h"

namespace simgpu::cudart {

inline CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
inline CUdeviceptr* address_of(void** pointer) {
  return reinterpret_cast<CUdeviceptr*>(pointer);
}
inline void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

inline CUarray driver_array(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray*>(array));
}
inline CUmipmappedArray driver_array(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray*>(array));
}

inline CUmemLocation driver_location(const cudaMemLocation& location) {
  return {static_cast<CUmemLocationType>(location.type), location.id};
}

// Element type of an array or texture.
struct ArrayFormat {
  CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;
  unsigned channels = 0;
};
Status array_format(const cudaChannelFormatDesc* desc, ArrayFormat& format);
cudaChannelFormatDesc channel_desc(ArrayFormat format);

// Bytes per element of an array.
Status element_bytes(cudaArray_const_t array, size_t& bytes);

// Where both ends of a copy of this kind lie.
struct CopyTypes {
  CUmemorytype source = CU_MEMORYTYPE_UNIFIED;
  CUmemorytype target = CU_MEMORYTYPE_UNIFIED;
};
Status copy_types(cudaMemcpyKind kind, CopyTypes& types);

// Whole descriptions of copies.  The 3D form serves plain copies and graph nodes.
Status driver_copy(const cudaMemcpy3DParms* parms, CUDA_MEMCPY3D& copy);
Status driver_copy(const cudaMemcpy3DPeerParms* parms, CUDA_MEMCPY3D_PEER& copy);
Status linear_copy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                   CUDA_MEMCPY3D& copy);
Status runtime_copy(const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms& parms);

}  // namespace simgpu::cudart
