#include "cudart/convert.h"

#include "cudart/api.h"

namespace simgpu::cudart {
namespace {

// Formats whose channels are not described by bits per channel.
struct SpecialFormat {
  cudaChannelFormatKind kind;
  CUarray_format format;
  unsigned channels;
  int bits;
};
constexpr SpecialFormat kSpecialFormats[] = {
    {cudaChannelFormatKindUnsignedNormalized8X1, CU_AD_FORMAT_UNORM_INT8X1, 1, 8},
    {cudaChannelFormatKindUnsignedNormalized8X2, CU_AD_FORMAT_UNORM_INT8X2, 2, 8},
    {cudaChannelFormatKindUnsignedNormalized8X4, CU_AD_FORMAT_UNORM_INT8X4, 4, 8},
    {cudaChannelFormatKindUnsignedNormalized16X1, CU_AD_FORMAT_UNORM_INT16X1, 1, 16},
    {cudaChannelFormatKindUnsignedNormalized16X2, CU_AD_FORMAT_UNORM_INT16X2, 2, 16},
    {cudaChannelFormatKindUnsignedNormalized16X4, CU_AD_FORMAT_UNORM_INT16X4, 4, 16},
    {cudaChannelFormatKindSignedNormalized8X1, CU_AD_FORMAT_SNORM_INT8X1, 1, 8},
    {cudaChannelFormatKindSignedNormalized8X2, CU_AD_FORMAT_SNORM_INT8X2, 2, 8},
    {cudaChannelFormatKindSignedNormalized8X4, CU_AD_FORMAT_SNORM_INT8X4, 4, 8},
    {cudaChannelFormatKindSignedNormalized16X1, CU_AD_FORMAT_SNORM_INT16X1, 1, 16},
    {cudaChannelFormatKindSignedNormalized16X2, CU_AD_FORMAT_SNORM_INT16X2, 2, 16},
    {cudaChannelFormatKindSignedNormalized16X4, CU_AD_FORMAT_SNORM_INT16X4, 4, 16},
};

struct PlainFormat {
  cudaChannelFormatKind kind;
  int bits;
  CUarray_format format;
};
constexpr PlainFormat kPlainFormats[] = {
    {cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
    {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
    {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
    {cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
    {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
    {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
    {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
    {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT},
};

// 1, 2 or 4 channels of equal width; else 0.
unsigned count_channels(const cudaChannelFormatDesc& desc) {
  const int bits = desc.x;
  const auto absent_or_equal = [bits](int other) { return other == 0 || other == bits; };
  if (bits <= 0 || !absent_or_equal(desc.y) || !absent_or_equal(desc.z) ||
      !absent_or_equal(desc.w)) {
    return 0;
  }
  if (desc.w) {
    return desc.y && desc.z ? 4 : 0;
  }
  return desc.z ? 0 : desc.y ? 2 : 1;
}

int channel_bits(CUarray_format format) {
  for (const PlainFormat& plain : kPlainFormats) {
    if (plain.format == format) {
      return plain.bits;
    }
  }
  for (const SpecialFormat& special : kSpecialFormats) {
    if (special.format == format) {
      return special.bits;
    }
  }
  return 0;
}

// One end of a copy: exactly one of array and pointer is given.
bool is_one_object(cudaArray_const_t array, const cudaPitchedPtr& linear) {
  return (array != nullptr) != (linear.ptr != nullptr);
}

// The parts of a 3D copy that plain and peer copies share.
template <class Parms, class Copy>
Status describe_ends(const Parms& parms, CopyTypes types, Copy& copy) {
  if (!is_one_object(parms.srcArray, parms.srcPtr) ||
      !is_one_object(parms.dstArray, parms.dstPtr)) {
    return cudaErrorInvalidValue;
  }
  size_t source_bytes = 1;
  size_t target_bytes = 1;
  if (parms.srcArray) {
    SIMGPU_TRY(element_bytes(parms.srcArray, source_bytes));
  }
  if (parms.dstArray) {
    SIMGPU_TRY(element_bytes(parms.dstArray, target_bytes));
  }
  if (parms.srcArray && parms.dstArray && source_bytes != target_bytes) {
    return cudaErrorInvalidValue;
  }
  copy = {};
  copy.srcXInBytes = parms.srcPos.x * source_bytes;
  copy.srcY = parms.srcPos.y;
  copy.srcZ = parms.srcPos.z;
  copy.srcMemoryType = parms.srcArray ? CU_MEMORYTYPE_ARRAY : types.source;
  copy.srcArray = driver_array(parms.srcArray);
  copy.srcHost = parms.srcPtr.ptr;
  copy.srcDevice = address(parms.srcPtr.ptr);
  copy.srcPitch = parms.srcPtr.pitch;
  copy.srcHeight = parms.srcPtr.ysize;
  copy.dstXInBytes = parms.dstPos.x * target_bytes;
  copy.dstY = parms.dstPos.y;
  copy.dstZ = parms.dstPos.z;
  copy.dstMemoryType = parms.dstArray ? CU_MEMORYTYPE_ARRAY : types.target;
  copy.dstArray = driver_array(parms.dstArray);
  copy.dstHost = parms.dstPtr.ptr;
  copy.dstDevice = address(parms.dstPtr.ptr);
  copy.dstPitch = parms.dstPtr.pitch;
  copy.dstHeight = parms.dstPtr.ysize;
  copy.WidthInBytes = parms.extent.width * (parms.srcArray ? source_bytes : target_bytes);
  copy.Height = parms.extent.height;
  copy.Depth = parms.extent.depth;
  return cudaSuccess;
}

}  // namespace

Status array_format(const cudaChannelFormatDesc* desc, ArrayFormat& format) {
  if (!desc) {
    return cudaErrorInvalidValue;
  }
  for (const SpecialFormat& special : kSpecialFormats) {
    if (special.kind == desc->f) {
      format = {special.format, special.channels};
      return cudaSuccess;
    }
  }
  const unsigned channels = count_channels(*desc);
  for (const PlainFormat& plain : kPlainFormats) {
    if (channels > 0 && plain.kind == desc->f && plain.bits == desc->x) {
      format = {plain.format, channels};
      return cudaSuccess;
    }
  }
  return cudaErrorInvalidChannelDescriptor;
}

cudaChannelFormatDesc channel_desc(ArrayFormat format) {
  const int bits = channel_bits(format.format);
  cudaChannelFormatDesc desc = {bits, format.channels > 1 ? bits : 0,
                                format.channels > 2 ? bits : 0, format.channels > 3 ? bits : 0,
                                cudaChannelFormatKindNone};
  for (const PlainFormat& plain : kPlainFormats) {
    if (plain.format == format.format) {
      desc.f = plain.kind;
    }
  }
  for (const SpecialFormat& special : kSpecialFormats) {
    if (special.format == format.format) {
      desc.f = special.kind;
    }
  }
  return desc;
}

Status element_bytes(cudaArray_const_t array, size_t& bytes) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  SIMGPU_TRY(g_driver.cuArray3DGetDescriptor(&descriptor, driver_array(array)));
  bytes = static_cast<size_t>(channel_bits(descriptor.Format)) / 8 * descriptor.NumChannels;
  return bytes > 0 ? cudaSuccess : cudaErrorNotSupported;
}

Status copy_types(cudaMemcpyKind kind, CopyTypes& types) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      types = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
      return cudaSuccess;
    case cudaMemcpyHostToDevice:
      types = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
      return cudaSuccess;
    case cudaMemcpyDeviceToHost:
      types = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
      return cudaSuccess;
    case cudaMemcpyDeviceToDevice:
      types = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
      return cudaSuccess;
    case cudaMemcpyDefault:
      types = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
      return cudaSuccess;
  }
  return cudaErrorInvalidMemcpyDirection;
}

Status driver_copy(const cudaMemcpy3DParms* parms, CUDA_MEMCPY3D& copy) {
  if (!parms) {
    return cudaErrorInvalidValue;
  }
  CopyTypes types;
  SIMGPU_TRY(copy_types(parms->kind, types));
  return describe_ends(*parms, types, copy);
}

Status driver_copy(const cudaMemcpy3DPeerParms* parms, CUDA_MEMCPY3D_PEER& copy) {
  if (!parms) {
    return cudaErrorInvalidValue;
  }
  SIMGPU_TRY(describe_ends(*parms, {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED}, copy));
  SIMGPU_TRY(primary_context(parms->srcDevice, copy.srcContext));
  return primary_context(parms->dstDevice, copy.dstContext);
}

Status linear_copy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                   CUDA_MEMCPY3D& copy) {
  cudaMemcpy3DParms parms = {};
  parms.srcPtr = {const_cast<void*>(source), bytes, bytes, 1};
  parms.dstPtr = {target, bytes, bytes, 1};
  parms.extent = {bytes, 1, 1};
  parms.kind = kind;
  return driver_copy(&parms, copy);
}

Status runtime_copy(const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms& parms) {
  parms = {};
  size_t bytes = 1;
  size_t source_bytes = 1;
  size_t target_bytes = 1;
  if (copy.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    parms.srcArray = reinterpret_cast<cudaArray_t>(copy.srcArray);
    SIMGPU_TRY(element_bytes(parms.srcArray, source_bytes));
    bytes = source_bytes;
  } else {
    parms.srcPtr = {copy.srcMemoryType == CU_MEMORYTYPE_HOST ? const_cast<void*>(copy.srcHost)
                                                             : pointer(copy.srcDevice),
                    copy.srcPitch, copy.WidthInBytes, copy.srcHeight};
  }
  if (copy.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    parms.dstArray = reinterpret_cast<cudaArray_t>(copy.dstArray);
    SIMGPU_TRY(element_bytes(parms.dstArray, target_bytes));
    bytes = target_bytes;
  } else {
    parms.dstPtr = {
        copy.dstMemoryType == CU_MEMORYTYPE_HOST ? copy.dstHost : pointer(copy.dstDevice),
        copy.dstPitch, copy.WidthInBytes, copy.dstHeight};
  }
  parms.srcPos = {copy.srcXInBytes / source_bytes, copy.srcY, copy.srcZ};
  parms.dstPos = {copy.dstXInBytes / target_bytes, copy.dstY, copy.dstZ};
  parms.extent = {copy.WidthInBytes / bytes, copy.Height, copy.Depth};
  const bool unified =
      copy.srcMemoryType == CU_MEMORYTYPE_UNIFIED || copy.dstMemoryType == CU_MEMORYTYPE_UNIFIED;
  const bool from_host = copy.srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
  parms.kind = unified     ? cudaMemcpyDefault
               : from_host ? (to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
                           : (to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice);
  return cudaSuccess;
}

}  // namespace simgpu::cudart
