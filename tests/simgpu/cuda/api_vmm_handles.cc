// Physical allocations and their handles.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "cuda/vmm.h"

namespace simgpu {
namespace {

bool on_host(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

CUresult check(const CUmemAllocationProp* p) {
  if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (p->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    if (!valid_device(p->location.id)) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
  } else if (!on_host(p->location.type)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned types = p->requestedHandleTypes;
  if (types & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return p->location.type == CU_MEM_LOCATION_TYPE_HOST && types ? CUDA_ERROR_INVALID_VALUE
                                                                : CUDA_SUCCESS;
}

// The device is in the file's name (Physical::create); -2 if the file is none of ours.
int device_of(int file) {
  char path[64];
  char target[128] = {};
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  int device = -2;
  if (readlink(path, target, sizeof target - 1) <= 0 ||
      sscanf(target, "/memfd:simgpu-physical%d", &device) != 1) {
    return -2;
  }
  return device;
}

CUmemAllocationProp imported_properties(int device) {
  CUmemAllocationProp p = {};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location.type = device < 0 ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device < 0 ? 0 : device;
  return p;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* p,
                                                  CUmemAllocationGranularity_flags option) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check(p));
  if (!bytes || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                 option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *bytes = kGranularityBytes;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                                const CUmemAllocationProp* p, unsigned long long flags) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check(p));
  if (!handle || bytes == 0 || bytes % kGranularityBytes || flags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int device = on_host(p->location.type) ? -1 : p->location.id;
  std::shared_ptr<Physical> physical = Physical::create(device, bytes);
  if (!physical) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  *handle = memory.add(std::move(physical), *p);
  return CUDA_SUCCESS;
}

// Frees the memory when the last mapping is gone too.
extern "C" CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  SIMGPU_DRIVER_ENTER();
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  VirtualAllocation* allocation = memory.find(handle);
  if (!allocation || allocation->references == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  --allocation->references;
  memory.drop_if_unused(handle);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                                void* address) {
  SIMGPU_DRIVER_ENTER();
  const RangePtr range = address_map().find(reinterpret_cast<uintptr_t>(address));
  if (!handle || !range || range->kind != RangeKind::kVirtual) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  VirtualAllocation* allocation = memory.find(range->physical_id);
  if (!allocation) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++allocation->references;
  *handle = allocation->handle;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* p,
                                                           CUmemGenericAllocationHandle handle) {
  SIMGPU_DRIVER_ENTER();
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  const VirtualAllocation* allocation = memory.find(handle);
  if (!p || !allocation) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *p = allocation->properties;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                                 CUmemAllocationHandleType type,
                                                 unsigned long long flags) {
  SIMGPU_DRIVER_ENTER();
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  const VirtualAllocation* allocation = memory.find(handle);
  if (!out || !allocation || flags || !(allocation->properties.requestedHandleTypes & type)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = dup(allocation->physical->file());
  if (file < 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *static_cast<int*>(out) = file;
  return CUDA_SUCCESS;
}

// For file descriptors the "OS handle" is the number itself.  It stays the caller's.
extern "C" CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                   void* os_handle,
                                                   CUmemAllocationHandleType type) {
  SIMGPU_DRIVER_ENTER();
  if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return handle ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  }
  const int theirs = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  const int device = device_of(theirs);
  struct stat status;
  if (device < -1 || device >= device_count() || fstat(theirs, &status) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = dup(theirs);
  if (file < 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  *handle = memory.add(Physical::import(file, device, static_cast<size_t>(status.st_size)),
                       imported_properties(device));
  return CUDA_SUCCESS;
}
