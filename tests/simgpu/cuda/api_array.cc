// Arrays and mipmapped arrays.
#include <algorithm>
#include <bit>

#include "cuda/array.h"
#include "cuda/capture.h"

namespace simgpu {
namespace {

Slots<CUmipmappedArray_st>& mipmap_slots() {
  static auto& slots = *new Slots<CUmipmappedArray_st>;
  return slots;
}

CUresult create_array(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  auto array = std::make_shared<Array>();
  SIMGPU_TRY(describe_array(descriptor, *array));
  array->context = current_context();
  array->device = array->context->device;
  array->block = Block::take(array->device, array->bytes());
  if (!array->block) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = new_array_handle(std::move(array), false);
  return CUDA_SUCCESS;
}

unsigned halved(unsigned extent, unsigned level) {
  return extent ? std::max(extent >> level, 1u) : 0;
}

// Layers stay as many on all levels.
CUDA_ARRAY3D_DESCRIPTOR level_of(CUDA_ARRAY3D_DESCRIPTOR d, unsigned level) {
  const bool layered = d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  d.Width = halved(static_cast<unsigned>(d.Width), level);
  d.Height = halved(static_cast<unsigned>(d.Height), level);
  d.Depth = layered ? d.Depth : halved(static_cast<unsigned>(d.Depth), level);
  return d;
}

unsigned clamp_levels(const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned wanted) {
  const bool layered = d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  const size_t largest = std::max({d.Width, d.Height, layered ? 0 : d.Depth});
  return std::clamp(wanted, 1u, static_cast<unsigned>(std::bit_width(largest)));
}

// All levels lie in one block, each at the alignment of an array.
CUresult create_levels(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, unsigned count,
                       std::vector<std::shared_ptr<Array>>& levels) {
  size_t bytes = 0;
  for (unsigned level = 0; level < count; ++level) {
    auto array = std::make_shared<Array>();
    SIMGPU_TRY(describe_array(level_of(descriptor, level), *array));
    array->context = current_context();
    array->device = array->context->device;
    array->block_offset = bytes;
    bytes += Arena::rounded(array->bytes());
    levels.push_back(std::move(array));
  }
  const std::shared_ptr<Block> block = Block::take(current_context()->device, bytes);
  for (const std::shared_ptr<Array>& array : levels) {
    array->block = block;
  }
  return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool alive(CUmipmappedArray handle) {
  return handle && handle->alive.load(std::memory_order_acquire);
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  SIMGPU_CONTEXT_ENTER();
  if (!d) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return create_array(out, {d->Width, d->Height, 0, d->Format, d->NumChannels, 0});
}

extern "C" CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  SIMGPU_CONTEXT_ENTER();
  return descriptor ? create_array(out, *descriptor) : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  SIMGPU_CONTEXT_ENTER();
  const std::shared_ptr<Array> array = find_array(handle);
  if (!out || !array) {
    return out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_ARRAY3D_DESCRIPTOR& d = array->descriptor;
  *out = {d.Width, d.Height, d.Format, d.NumChannels};
  return CUDA_SUCCESS;
}

extern "C" CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  SIMGPU_CONTEXT_ENTER();
  const std::shared_ptr<Array> array = find_array(handle);
  if (!out || !array) {
    return out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
  }
  *out = array->descriptor;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                                 CUarray handle, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  const std::shared_ptr<Array> array = find_array(handle);
  if (!out || !array || !valid_device(device)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = {};
  out->size = Arena::rounded(array->bytes());
  out->alignment = Arena::kAlignment;
  return CUDA_SUCCESS;
}

// Like cuMemFree it waits for the context's work.
extern "C" CUresult cuArrayDestroy(CUarray handle) {
  SIMGPU_CONTEXT_ENTER();
  const std::shared_ptr<Array> array = find_array(handle);
  if (!array || handle->level) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  SIMGPU_TRY(synchronize(*array->context));
  return retire_array_handle(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

extern "C" CUresult cuMipmappedArrayCreate(CUmipmappedArray* out,
                                           const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                           unsigned level_count) {
  SIMGPU_CONTEXT_ENTER();
  if (!out || !descriptor) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  std::vector<std::shared_ptr<Array>> levels;
  SIMGPU_TRY(create_levels(*descriptor, clamp_levels(*descriptor, level_count), levels));
  CUmipmappedArray handle = mipmap_slots().take();
  handle->context = current_context();
  handle->descriptor = *descriptor;
  handle->levels.clear();
  for (std::shared_ptr<Array>& level : levels) {
    handle->levels.push_back(new_array_handle(std::move(level), true));
  }
  handle->alive.store(true, std::memory_order_release);
  *out = handle;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle,
                                             unsigned level) {
  SIMGPU_CONTEXT_ENTER();
  if (!out || !alive(handle) || level >= handle->levels.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = handle->levels[level];
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                                          CUmipmappedArray handle,
                                                          CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!out || !alive(handle) || !valid_device(device)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = {};
  for (CUarray level : handle->levels) {
    const std::shared_ptr<Array> array = find_array(level);
    out->size += array ? Arena::rounded(array->bytes()) : 0;
  }
  out->alignment = Arena::kAlignment;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  SIMGPU_CONTEXT_ENTER();
  if (!alive(handle)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  SIMGPU_TRY(synchronize(*handle->context));
  if (!handle->alive.exchange(false)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (CUarray level : handle->levels) {
    retire_array_handle(level);
  }
  handle->levels.clear();
  mipmap_slots().give(handle);
  return CUDA_SUCCESS;
}
