// Arrays and mipmapped arrays.
#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {
namespace {

Status make_array(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent,
                  unsigned flags) {
  ArrayFormat format;
  SIMGPU_TRY(array_format(desc, format));
  // The flags of both sides have the same values.
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = {extent.width,  extent.height,   extent.depth,
                                              format.format, format.channels, flags};
  return g_driver.cuArray3DCreate(reinterpret_cast<CUarray*>(array), &descriptor);
}

}  // namespace

SIMGPU_RT(context, cudaMallocArray,
          (cudaArray_t * array, const cudaChannelFormatDesc* desc, size_t width, size_t height,
           unsigned flags),
          (array, desc, width, height, flags)) {
  return array ? make_array(array, desc, {width, height, 0}, flags) : cudaErrorInvalidValue;
}

SIMGPU_RT(context, cudaMalloc3DArray,
          (cudaArray_t * array, const cudaChannelFormatDesc* desc, cudaExtent extent,
           unsigned flags),
          (array, desc, extent, flags)) {
  return array ? make_array(array, desc, extent, flags) : cudaErrorInvalidValue;
}

SIMGPU_RT(context, cudaMallocMipmappedArray,
          (cudaMipmappedArray_t * array, const cudaChannelFormatDesc* desc, cudaExtent extent,
           unsigned levels, unsigned flags),
          (array, desc, extent, levels, flags)) {
  if (!array) {
    return cudaErrorInvalidValue;
  }
  ArrayFormat format;
  SIMGPU_TRY(array_format(desc, format));
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = {extent.width,  extent.height,   extent.depth,
                                              format.format, format.channels, flags};
  return g_driver.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(array), &descriptor,
                                         levels);
}

SIMGPU_RT(context, cudaFreeArray, (cudaArray_t array), (array)) {
  return array ? Status(g_driver.cuArrayDestroy(driver_array(array))) : cudaSuccess;
}

SIMGPU_RT(context, cudaFreeMipmappedArray, (cudaMipmappedArray_t array), (array)) {
  return array ? Status(g_driver.cuMipmappedArrayDestroy(driver_array(array))) : cudaSuccess;
}

SIMGPU_RT(context, cudaGetMipmappedArrayLevel,
          (cudaArray_t * array, cudaMipmappedArray_const_t mipmap, unsigned level),
          (array, mipmap, level)) {
  return g_driver.cuMipmappedArrayGetLevel(reinterpret_cast<CUarray*>(array), driver_array(mipmap),
                                           level);
}

SIMGPU_RT(context, cudaArrayGetInfo,
          (cudaChannelFormatDesc * desc, cudaExtent* extent, unsigned* flags, cudaArray_t array),
          (desc, extent, flags, array)) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  SIMGPU_TRY(g_driver.cuArray3DGetDescriptor(&descriptor, driver_array(array)));
  if (desc) {
    *desc = channel_desc({descriptor.Format, descriptor.NumChannels});
  }
  if (extent) {
    *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
  }
  if (flags) {
    *flags = descriptor.Flags;
  }
  return cudaSuccess;
}

SIMGPU_RT(context, cudaGetChannelDesc, (cudaChannelFormatDesc * desc, cudaArray_const_t array),
          (desc, array)) {
  if (!desc) {
    return cudaErrorInvalidValue;
  }
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  SIMGPU_TRY(g_driver.cuArray3DGetDescriptor(&descriptor, driver_array(array)));
  *desc = channel_desc({descriptor.Format, descriptor.NumChannels});
  return cudaSuccess;
}

SIMGPU_RT(context, cudaArrayGetPlane, (cudaArray_t * plane, cudaArray_t array, unsigned index),
          (plane, array, index)) {
  return g_driver.cuArrayGetPlane(reinterpret_cast<CUarray*>(plane), driver_array(array), index);
}

static_assert(sizeof(cudaArrayMemoryRequirements) == sizeof(CUDA_ARRAY_MEMORY_REQUIREMENTS));

SIMGPU_RT(context, cudaArrayGetMemoryRequirements,
          (cudaArrayMemoryRequirements * requirements, cudaArray_t array, int device),
          (requirements, array, device)) {
  return g_driver.cuArrayGetMemoryRequirements(
      reinterpret_cast<CUDA_ARRAY_MEMORY_REQUIREMENTS*>(requirements), driver_array(array), device);
}

SIMGPU_RT(context, cudaMipmappedArrayGetMemoryRequirements,
          (cudaArrayMemoryRequirements * requirements, cudaMipmappedArray_t array, int device),
          (requirements, array, device)) {
  return g_driver.cuMipmappedArrayGetMemoryRequirements(
      reinterpret_cast<CUDA_ARRAY_MEMORY_REQUIREMENTS*>(requirements), driver_array(array), device);
}

static_assert(sizeof(cudaArraySparseProperties) == sizeof(CUDA_ARRAY_SPARSE_PROPERTIES));

SIMGPU_RT(context, cudaArrayGetSparseProperties,
          (cudaArraySparseProperties * properties, cudaArray_t array), (properties, array)) {
  return g_driver.cuArrayGetSparseProperties(
      reinterpret_cast<CUDA_ARRAY_SPARSE_PROPERTIES*>(properties), driver_array(array));
}

SIMGPU_RT(context, cudaMipmappedArrayGetSparseProperties,
          (cudaArraySparseProperties * properties, cudaMipmappedArray_t array),
          (properties, array)) {
  return g_driver.cuMipmappedArrayGetSparseProperties(
      reinterpret_cast<CUDA_ARRAY_SPARSE_PROPERTIES*>(properties), driver_array(array));
}

extern "C" cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                       cudaChannelFormatKind kind) {
  static constinit Entry entry{__func__};
  (void)entry.enter();
  return {x, y, z, w, kind};
}

}  // namespace simgpu::cudart
