// Texture and surface objects: what they were made of can be asked; nothing here samples them.
#include "cuda/array.h"

namespace simgpu {
namespace {

struct TextureObject {
  CUDA_RESOURCE_DESC resource;
  CUDA_TEXTURE_DESC texture;
  bool has_view;
  CUDA_RESOURCE_VIEW_DESC view;
};

// Texture and surface objects share one row of numbers, so one is never taken for the other.
struct Objects {
  std::mutex mutex;
  unsigned long long next = 1;
  std::map<unsigned long long, TextureObject> textures;
  std::map<unsigned long long, CUDA_RESOURCE_DESC> surfaces;
};
Objects& objects() {
  static Objects& all = *new Objects;
  return all;
}

bool right_linear(CUdeviceptr address, size_t bytes, CUarray_format format) {
  Pin pin;
  return bytes > 0 && format_bytes(format) > 0 && address_map().pin(address, bytes, pin);
}

bool right_resource(const CUDA_RESOURCE_DESC& r) {
  switch (r.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      return find_array(r.res.array.hArray) != nullptr;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return r.res.mipmap.hMipmappedArray && r.res.mipmap.hMipmappedArray->alive;
    case CU_RESOURCE_TYPE_LINEAR:
      return right_linear(r.res.linear.devPtr, r.res.linear.sizeInBytes, r.res.linear.format);
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& p = r.res.pitch2D;
      const size_t row_bytes = p.width * format_bytes(p.format) * p.numChannels;
      return p.height > 0 && p.pitchInBytes >= row_bytes &&
             right_linear(p.devPtr, (p.height - 1) * p.pitchInBytes + row_bytes, p.format);
    }
    default:
      return false;
  }
}

// Runs `read` on the object of that number, under the lock.
template <class Map, class Read>
CUresult with_object(Map& map, unsigned long long number, Read read) {
  const std::lock_guard lock(objects().mutex);
  const auto found = map.find(number);
  return found == map.end() ? CUDA_ERROR_INVALID_VALUE : read(found->second);
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                                      const CUDA_TEXTURE_DESC* texture,
                                      const CUDA_RESOURCE_VIEW_DESC* view) {
  SIMGPU_CONTEXT_ENTER();
  if (!out || !resource || !texture || resource->flags || !right_resource(*resource)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(objects().mutex);
  *out = objects().next++;
  objects().textures[*out] = {*resource, *texture, view != nullptr,
                              view ? *view : CUDA_RESOURCE_VIEW_DESC{}};
  return CUDA_SUCCESS;
}

extern "C" CUresult cuTexObjectDestroy(CUtexObject object) {
  SIMGPU_CONTEXT_ENTER();
  const std::lock_guard lock(objects().mutex);
  return objects().textures.erase(object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject object) {
  SIMGPU_CONTEXT_ENTER();
  return with_object(objects().textures, object, [&](const TextureObject& texture) {
    return out ? (*out = texture.resource, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE;
  });
}

extern "C" CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject object) {
  SIMGPU_CONTEXT_ENTER();
  return with_object(objects().textures, object, [&](const TextureObject& texture) {
    return out ? (*out = texture.texture, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE;
  });
}

extern "C" CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out,
                                                   CUtexObject object) {
  SIMGPU_CONTEXT_ENTER();
  return with_object(objects().textures, object, [&](const TextureObject& texture) {
    const bool can = out && texture.has_view;
    return can ? (*out = texture.view, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE;
  });
}

extern "C" CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  SIMGPU_CONTEXT_ENTER();
  if (!out || !resource || resource->resType != CU_RESOURCE_TYPE_ARRAY ||
      !right_resource(*resource)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(objects().mutex);
  *out = objects().next++;
  objects().surfaces[*out] = *resource;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuSurfObjectDestroy(CUsurfObject object) {
  SIMGPU_CONTEXT_ENTER();
  const std::lock_guard lock(objects().mutex);
  return objects().surfaces.erase(object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject object) {
  SIMGPU_CONTEXT_ENTER();
  return with_object(objects().surfaces, object, [&](const CUDA_RESOURCE_DESC& resource) {
    return out ? (*out = resource, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE;
  });
}
