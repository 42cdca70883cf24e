#include "cuda/copy_plan.h"

#include "cuda/copy.h"

namespace simgpu {
namespace {

constexpr size_t kMaxPitch = 0x7fffffff;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH

// One side of CUDA_MEMCPY3D; the struct names each field twice.
struct SideParameters {
  CUmemorytype type;
  uintptr_t host;
  CUdeviceptr device;
  CUarray array;
  size_t x, y, z, lod, pitch, height;
};

SideParameters source_of(const CUDA_MEMCPY3D& p) {
  return {p.srcMemoryType, reinterpret_cast<uintptr_t>(p.srcHost),
          p.srcDevice,     p.srcArray,
          p.srcXInBytes,   p.srcY,
          p.srcZ,          p.srcLOD,
          p.srcPitch,      p.srcHeight};
}

SideParameters destination_of(const CUDA_MEMCPY3D& p) {
  return {p.dstMemoryType, reinterpret_cast<uintptr_t>(p.dstHost),
          p.dstDevice,     p.dstArray,
          p.dstXInBytes,   p.dstY,
          p.dstZ,          p.dstLOD,
          p.dstPitch,      p.dstHeight};
}

// a * b + c; false if it does not fit.
bool multiply_add(size_t a, size_t b, size_t c, size_t& out) {
  return !__builtin_mul_overflow(a, b, &out) && !__builtin_add_overflow(out, c, &out);
}

bool within(size_t offset, size_t extent, size_t limit) {
  return extent <= limit && offset <= limit - extent;
}

CUresult plan_array(const SideParameters& p, const CUDA_MEMCPY3D& shape, CopySide& side) {
  const std::shared_ptr<Array> array = find_array(p.array);
  if (!array) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!within(p.x, shape.WidthInBytes, array->row_bytes) ||
      !within(p.y, shape.Height, array->rows) || !within(p.z, shape.Depth, array->layers)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  side.place = Place::kDevice;
  side.is_array = true;
  side.array = array;
  side.pitch = array->row_bytes;
  side.slice = array->layer_bytes();
  side.address = p.x + p.y * side.pitch + p.z * side.slice;
  return CUDA_SUCCESS;
}

// Fills in pitch, slice, span and the offset of the first byte.
CUresult plan_rows(const SideParameters& p, const CUDA_MEMCPY3D& shape, CopySide& side,
                   size_t& offset) {
  const bool one_row = shape.Height == 1 && shape.Depth == 1 && p.y == 0 && p.z == 0;
  const bool one_layer = shape.Depth == 1 && p.z == 0;
  if ((!one_row && !within(p.x, shape.WidthInBytes, p.pitch)) || p.pitch > kMaxPitch ||
      (!one_layer && !within(p.y, shape.Height, p.height))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  side.pitch = p.pitch;
  side.slice = p.pitch * p.height;
  size_t last = 0;
  if (__builtin_mul_overflow(p.pitch, p.height, &side.slice) ||
      !multiply_add(p.y, side.pitch, p.x, offset) ||
      !multiply_add(p.z, side.slice, offset, offset) ||
      !multiply_add(shape.Height - 1, side.pitch, shape.WidthInBytes, last) ||
      !multiply_add(shape.Depth - 1, side.slice, last, side.span)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult plan_side(const SideParameters& p, const CUDA_MEMCPY3D& shape, CopySide& side) {
  if (p.lod != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (p.type == CU_MEMORYTYPE_ARRAY) {
    return plan_array(p, shape, side);
  }
  size_t offset = 0;
  SIMGPU_TRY(plan_rows(p, shape, side, offset));
  const uintptr_t start = p.type == CU_MEMORYTYPE_HOST ? p.host : p.device;
  if (start == 0 || __builtin_add_overflow(start, offset, &side.address) ||
      side.address + side.span < side.address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Located located = locate(side.address, side.span);
  const bool must_be_known = p.type == CU_MEMORYTYPE_DEVICE || located.place == Place::kDevice;
  if ((must_be_known && !located.inside) || !located.accessible) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  side.place = located.inside ? located.place : Place::kPageable;
  side.sync_memops = located.sync_memops;
  return CUDA_SUCCESS;
}

bool known_type(CUmemorytype type) {
  return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

}  // namespace

Located locate(uintptr_t address, size_t bytes) {
  Pin pin;
  Located located;
  located.inside = address_map().pin(address, bytes, pin);
  if (!pin.first) {
    return located;
  }
  const Range& range = *pin.first;
  located.place = range.on_device()                   ? Place::kDevice
                  : range.kind == RangeKind::kManaged ? Place::kManaged
                                                      : Place::kPinned;
  located.sync_memops = range.sync_memops.load(std::memory_order_relaxed);
  // Memory of a graph is captured before it is allocated; whether it is, shows when the work runs.
  located.accessible = range.readable != 0 || range.kind == RangeKind::kGraph;
  for (const RangePtr& more : pin.more) {
    located.accessible = located.accessible && more->readable != 0;
  }
  return located;
}

CUresult plan_copy(const CUDA_MEMCPY3D& parameters, CopyPlan& plan) {
  plan.parameters = parameters;
  if (!known_type(parameters.srcMemoryType) || !known_type(parameters.dstMemoryType)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (plan.bytes() == 0) {
    return CUDA_SUCCESS;
  }
  SIMGPU_TRY(plan_side(source_of(parameters), parameters, plan.source));
  return plan_side(destination_of(parameters), parameters, plan.destination);
}

CUDA_MEMCPY3D linear_copy(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = source;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = destination;
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

}  // namespace simgpu
