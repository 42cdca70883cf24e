// Pinned, registered and managed memory.
#include "cuda/capture.h"
#include "cuda/host_memory.h"
#include "cuda/memory.h"
#include "cuda/old_names.h"

namespace simgpu {
namespace {

constexpr unsigned kHostAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

RangePtr find_kind(const void* address, RangeKind kind) {
  RangePtr range = address_map().find(reinterpret_cast<uintptr_t>(address));
  return range && range->kind == kind ? range : nullptr;
}

// Unmapping host memory from the devices waits for their work, like cuMemFree.
CUresult forget(const RangePtr& range, const void* address, CUresult if_unknown) {
  if (!range || range->base != reinterpret_cast<uintptr_t>(address)) {
    return if_unknown;
  }
  SIMGPU_TRY(synchronize_users(*range));
  const uint64_t id = range->id;
  const auto same = [id](const Range& other) { return other.id == id; };
  return address_map().remove(range->base, same) ? CUDA_SUCCESS : if_unknown;
}

CUresult host_alloc(void** address, size_t bytes, unsigned flags) {
  if (!address || bytes == 0 || (flags & ~kHostAllocFlags)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  RangePtr range;
  SIMGPU_TRY(allocate_host(*current_context(), RangeKind::kHost, bytes, flags, range));
  *address = reinterpret_cast<void*>(range->base);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemAllocHost(void** address, size_t bytes) {
  SIMGPU_CONTEXT_ENTER();
  return host_alloc(address, bytes, 0);
}

extern "C" CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  return host_alloc(address, bytes, flags);
}

extern "C" CUresult cuMemFreeHost(void* address) {
  SIMGPU_CONTEXT_ENTER();
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  return forget(find_kind(address, RangeKind::kHost), address, CUDA_ERROR_INVALID_VALUE);
}

extern "C" CUresult cuMemHostRegister(void* address, size_t bytes, unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  if (!address || bytes == 0 || (flags & ~kRegisterFlags)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  return register_host(*current_context(), address, bytes, flags);
}

extern "C" CUresult cuMemHostUnregister(void* address) {
  SIMGPU_CONTEXT_ENTER();
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  return forget(find_kind(address, RangeKind::kRegistered), address,
                CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

// With unified addressing the device sees host memory at its own address.
extern "C" CUresult cuMemHostGetDevicePointer(CUdeviceptr* device_address, void* address,
                                              unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  const RangePtr range = address_map().find(reinterpret_cast<uintptr_t>(address));
  if (!device_address || flags != 0 || !range || range->on_device()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *device_address = reinterpret_cast<CUdeviceptr>(address);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemHostGetFlags(unsigned* flags, void* address) {
  SIMGPU_CONTEXT_ENTER();
  RangePtr range = find_kind(address, RangeKind::kHost);
  if (!range) {
    range = find_kind(address, RangeKind::kRegistered);
  }
  if (!flags || !range) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = range->flags;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  SIMGPU_CONTEXT_ENTER();
  if (!address || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(forbid_unsafe_while_capturing());
  RangePtr range;
  SIMGPU_TRY(allocate_host(*current_context(), RangeKind::kManaged, bytes, flags, range));
  *address = range->base;
  return CUDA_SUCCESS;
}

#undef cuMemHostRegister
SIMGPU_OLD_NAME(cuMemHostRegister, cuMemHostRegister_v2);
