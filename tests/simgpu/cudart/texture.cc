// Texture and surface objects.
//
// SIMGPU_DIFFERS(cudaCreateTextureObject, cudaCreateSurfaceObject): nothing samples the object; it
// keeps what it was made from.
#include <cstring>

#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {
namespace {

Status driver_resource(const cudaResourceDesc* desc, CUDA_RESOURCE_DESC& out) {
  if (!desc) {
    return cudaErrorInvalidValue;
  }
  out = {};
  out.resType = static_cast<CUresourcetype>(desc->resType);
  ArrayFormat format;
  switch (desc->resType) {
    case cudaResourceTypeArray:
      out.res.array.hArray = driver_array(desc->res.array.array);
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      out.res.mipmap.hMipmappedArray = driver_array(desc->res.mipmap.mipmap);
      return cudaSuccess;
    case cudaResourceTypeLinear:
      SIMGPU_TRY(array_format(&desc->res.linear.desc, format));
      out.res.linear = {address(desc->res.linear.devPtr), format.format, format.channels,
                        desc->res.linear.sizeInBytes};
      return cudaSuccess;
    case cudaResourceTypePitch2D:
      SIMGPU_TRY(array_format(&desc->res.pitch2D.desc, format));
      out.res.pitch2D = {address(desc->res.pitch2D.devPtr),
                         format.format,
                         format.channels,
                         desc->res.pitch2D.width,
                         desc->res.pitch2D.height,
                         desc->res.pitch2D.pitchInBytes};
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

Status runtime_resource(const CUDA_RESOURCE_DESC& desc, cudaResourceDesc* out) {
  if (!out) {
    return cudaErrorInvalidValue;
  }
  *out = {};
  out->resType = static_cast<cudaResourceType>(desc.resType);
  switch (desc.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out->res.array.array = reinterpret_cast<cudaArray_t>(desc.res.array.hArray);
      return cudaSuccess;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out->res.mipmap.mipmap =
          reinterpret_cast<cudaMipmappedArray_t>(desc.res.mipmap.hMipmappedArray);
      return cudaSuccess;
    case CU_RESOURCE_TYPE_LINEAR:
      out->res.linear = {pointer(desc.res.linear.devPtr),
                         channel_desc({desc.res.linear.format, desc.res.linear.numChannels}),
                         desc.res.linear.sizeInBytes};
      return cudaSuccess;
    case CU_RESOURCE_TYPE_PITCH2D:
      out->res.pitch2D = {pointer(desc.res.pitch2D.devPtr),
                          channel_desc({desc.res.pitch2D.format, desc.res.pitch2D.numChannels}),
                          desc.res.pitch2D.width, desc.res.pitch2D.height,
                          desc.res.pitch2D.pitchInBytes};
      return cudaSuccess;
    default:
      return cudaErrorUnknown;
  }
}

struct TextureFlag {
  unsigned flag;
  int cudaTextureDesc::*field;
};
constexpr TextureFlag kTextureFlags[] = {
    {CU_TRSF_NORMALIZED_COORDINATES, &cudaTextureDesc::normalizedCoords},
    {CU_TRSF_SRGB, &cudaTextureDesc::sRGB},
    {CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, &cudaTextureDesc::disableTrilinearOptimization},
    {CU_TRSF_SEAMLESS_CUBEMAP, &cudaTextureDesc::seamlessCubemap},
};

CUDA_TEXTURE_DESC driver_texture(const cudaTextureDesc& desc) {
  CUDA_TEXTURE_DESC out = {};
  for (int i = 0; i < 3; ++i) {
    out.addressMode[i] = static_cast<CUaddress_mode>(desc.addressMode[i]);
  }
  out.filterMode = static_cast<CUfilter_mode>(desc.filterMode);
  out.flags = desc.readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0;
  for (const TextureFlag& row : kTextureFlags) {
    out.flags |= desc.*row.field ? row.flag : 0;
  }
  out.maxAnisotropy = desc.maxAnisotropy;
  out.mipmapFilterMode = static_cast<CUfilter_mode>(desc.mipmapFilterMode);
  out.mipmapLevelBias = desc.mipmapLevelBias;
  out.minMipmapLevelClamp = desc.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = desc.maxMipmapLevelClamp;
  memcpy(out.borderColor, desc.borderColor, sizeof out.borderColor);
  return out;
}

cudaTextureDesc runtime_texture(const CUDA_TEXTURE_DESC& desc) {
  cudaTextureDesc out = {};
  for (int i = 0; i < 3; ++i) {
    out.addressMode[i] = static_cast<cudaTextureAddressMode>(desc.addressMode[i]);
  }
  out.filterMode = static_cast<cudaTextureFilterMode>(desc.filterMode);
  out.readMode =
      desc.flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  for (const TextureFlag& row : kTextureFlags) {
    out.*row.field = (desc.flags & row.flag) != 0;
  }
  out.maxAnisotropy = desc.maxAnisotropy;
  out.mipmapFilterMode = static_cast<cudaTextureFilterMode>(desc.mipmapFilterMode);
  out.mipmapLevelBias = desc.mipmapLevelBias;
  out.minMipmapLevelClamp = desc.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = desc.maxMipmapLevelClamp;
  memcpy(out.borderColor, desc.borderColor, sizeof out.borderColor);
  return out;
}

static_assert(sizeof(cudaResourceViewDesc) == sizeof(CUDA_RESOURCE_VIEW_DESC));

}  // namespace

SIMGPU_RT(context, cudaCreateTextureObject,
          (cudaTextureObject_t * object, const cudaResourceDesc* resource,
           const cudaTextureDesc* texture, const cudaResourceViewDesc* view),
          (object, resource, texture, view)) {
  if (!object || !texture) {
    return cudaErrorInvalidValue;
  }
  CUDA_RESOURCE_DESC driver_desc;
  SIMGPU_TRY(driver_resource(resource, driver_desc));
  const CUDA_TEXTURE_DESC texture_desc = driver_texture(*texture);
  return g_driver.cuTexObjectCreate(object, &driver_desc, &texture_desc,
                                    reinterpret_cast<const CUDA_RESOURCE_VIEW_DESC*>(view));
}

SIMGPU_RT(context, cudaDestroyTextureObject, (cudaTextureObject_t object), (object)) {
  return g_driver.cuTexObjectDestroy(object);
}

SIMGPU_RT(context, cudaGetTextureObjectResourceDesc,
          (cudaResourceDesc * resource, cudaTextureObject_t object), (resource, object)) {
  CUDA_RESOURCE_DESC desc = {};
  SIMGPU_TRY(g_driver.cuTexObjectGetResourceDesc(&desc, object));
  return runtime_resource(desc, resource);
}

SIMGPU_RT(context, cudaGetTextureObjectTextureDesc,
          (cudaTextureDesc * texture, cudaTextureObject_t object), (texture, object)) {
  if (!texture) {
    return cudaErrorInvalidValue;
  }
  CUDA_TEXTURE_DESC desc = {};
  SIMGPU_TRY(g_driver.cuTexObjectGetTextureDesc(&desc, object));
  *texture = runtime_texture(desc);
  return cudaSuccess;
}

SIMGPU_RT(context, cudaGetTextureObjectResourceViewDesc,
          (cudaResourceViewDesc * view, cudaTextureObject_t object), (view, object)) {
  return g_driver.cuTexObjectGetResourceViewDesc(reinterpret_cast<CUDA_RESOURCE_VIEW_DESC*>(view),
                                                 object);
}

SIMGPU_RT(context, cudaCreateSurfaceObject,
          (cudaSurfaceObject_t * object, const cudaResourceDesc* resource), (object, resource)) {
  CUDA_RESOURCE_DESC desc;
  SIMGPU_TRY(driver_resource(resource, desc));
  return g_driver.cuSurfObjectCreate(object, &desc);
}

SIMGPU_RT(context, cudaDestroySurfaceObject, (cudaSurfaceObject_t object), (object)) {
  return g_driver.cuSurfObjectDestroy(object);
}

SIMGPU_RT(context, cudaGetSurfaceObjectResourceDesc,
          (cudaResourceDesc * resource, cudaSurfaceObject_t object), (resource, object)) {
  CUDA_RESOURCE_DESC desc = {};
  SIMGPU_TRY(g_driver.cuSurfObjectGetResourceDesc(&desc, object));
  return runtime_resource(desc, resource);
}

}  // namespace simgpu::cudart
