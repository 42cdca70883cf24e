// Linear device memory.
#include "cuda/capture.h"
#include "cuda/graph_memory.h"
#include "cuda/memory.h"
#include "cuda/node_account.h"
#include "cuda/pool.h"

namespace simgpu {
namespace {

// What cuMemFree takes.
bool freed_by_plain_free(const Range& range) {
  switch (range.kind) {
    case RangeKind::kDevice:
    case RangeKind::kPool:
    case RangeKind::kGraph:
    case RangeKind::kManaged:
      return true;
    default:
      return false;
  }
}

// Texture hardware's pitch alignment, which the vendor's driver uses too.
constexpr size_t kPitchAlignment = 512;

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  SIMGPU_CONTEXT_ENTER();
  const size_t total = device_capacity();
  if (free_bytes) {
    const size_t used = NodeAccount::get().used_bytes(current_context()->device);
    *free_bytes = used < total ? total - used : 0;
  }
  if (total_bytes) {
    *total_bytes = total;
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  if (!address || bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  RangePtr range;
  SIMGPU_TRY(allocate_linear(*current_context(), bytes, range));
  *address = range->base;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width_bytes,
                                    size_t height, unsigned element_bytes) {
  SIMGPU_CONTEXT_ENTER();
  const bool element_ok = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  if (!address || !pitch || width_bytes == 0 || height == 0 || !element_ok) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  if (width_bytes > device_capacity() || height > device_capacity()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const size_t row_bytes = round_up(width_bytes, kPitchAlignment);
  size_t bytes = 0;
  if (__builtin_mul_overflow(row_bytes, height, &bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  RangePtr range;
  SIMGPU_TRY(allocate_linear(*current_context(), bytes, range));
  *address = range->base;
  *pitch = row_bytes;
  return CUDA_SUCCESS;
}

// Stream-ordered memory is freed without waiting; the program has synchronised.
extern "C" CUresult cuMemFree(CUdeviceptr address) {
  SIMGPU_CONTEXT_ENTER();
  if (address == 0) {
    return CUDA_SUCCESS;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  const RangePtr range = address_map().find(address);
  if (!range || range->base != address || !freed_by_plain_free(*range)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (range->kind == RangeKind::kGraph) {
    return free_graph_memory(address);
  }
  if (range->kind == RangeKind::kDevice || range->kind == RangeKind::kManaged) {
    SIMGPU_TRY(synchronize_users(*range));
  }
  const uint64_t id = range->id;
  const auto same = [id](const Range& other) { return other.id == id; };
  if (!address_map().remove(address, same)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (range->owner) {
    range->owner->give_now(address);
  } else if (range->kind == RangeKind::kPool) {
    forget_imported(*range);
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  SIMGPU_CONTEXT_ENTER();
  const RangePtr range = address_map().find(address);
  if (!range) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (base) {
    *base = range->base;
  }
  if (bytes) {
    *bytes = range->bytes;
  }
  return CUDA_SUCCESS;
}
