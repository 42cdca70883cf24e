#include "cuda/array.h"

#include <algorithm>
#include <set>

namespace simgpu {
namespace {

// Above what any part supports: catches negative and uninitialised extents.
constexpr size_t kMaxExtent = 1 << 28;

constexpr unsigned kLayered = CUDA_ARRAY3D_LAYERED;
constexpr unsigned kCubemap = CUDA_ARRAY3D_CUBEMAP;

struct ArrayHandles {
  std::mutex mutex;
  std::set<CUarray> alive;
  Slots<CUarray_st> slots;
};
ArrayHandles& handles() {
  static ArrayHandles& all = *new ArrayHandles;
  return all;
}

bool right_shape(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  const bool layered = d.Flags & kLayered;
  if (d.Width == 0 || std::max({d.Width, d.Height, d.Depth}) > kMaxExtent) {
    return false;
  }
  if (d.Flags & kCubemap) {
    return d.Width == d.Height && (layered ? d.Depth && d.Depth % 6 == 0 : d.Depth == 6);
  }
  return layered ? d.Depth > 0 : (d.Height > 0 || d.Depth == 0);
}

}  // namespace

std::shared_ptr<Array> find_array(CUarray handle) {
  return handle && handle->alive.load(std::memory_order_acquire) ? handle->array : nullptr;
}

size_t format_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

CUresult describe_array(const CUDA_ARRAY3D_DESCRIPTOR& d, Array& array) {
  const size_t channel_bytes = format_bytes(d.Format);
  const bool channels_ok = d.NumChannels == 1 || d.NumChannels == 2 || d.NumChannels == 4;
  if (d.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (channel_bytes == 0 || !channels_ok || !right_shape(d)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  array.descriptor = d;
  array.element_bytes = channel_bytes * d.NumChannels;
  array.row_bytes = array.element_bytes * d.Width;
  array.rows = std::max<size_t>(d.Height, 1);
  array.layers = std::max<size_t>(d.Depth, 1);
  const size_t room = device_capacity();
  if (array.row_bytes > room || array.rows > room / array.row_bytes ||
      array.layers > room / array.layer_bytes()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

CUarray new_array_handle(std::shared_ptr<Array> array, bool level) {
  CUarray handle = handles().slots.take();
  handle->array = std::move(array);
  handle->level = level;
  handle->alive.store(true, std::memory_order_release);
  const std::lock_guard lock(handles().mutex);
  handles().alive.insert(handle);
  return handle;
}

bool retire_array_handle(CUarray handle) {
  if (!handle || !handle->alive.exchange(false)) {
    return false;
  }
  {
    const std::lock_guard lock(handles().mutex);
    handles().alive.erase(handle);
  }
  handle->array.reset();
  handles().slots.give(handle);
  return true;
}

void release_arrays(Context& context) {
  std::vector<CUarray> mine;
  {
    const std::lock_guard lock(handles().mutex);
    std::copy_if(handles().alive.begin(), handles().alive.end(), std::back_inserter(mine),
                 [&](CUarray handle) { return handle->array->context == &context; });
  }
  for (CUarray handle : mine) {
    retire_array_handle(handle);
  }
}

}  // namespace simgpu
