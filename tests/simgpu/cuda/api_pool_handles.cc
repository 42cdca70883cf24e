// Pools as objects: creation, attributes, access, sharing.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "cuda/ipc.h"
#include "cuda/pool.h"

namespace simgpu {
namespace {

CUresult check(const CUmemPoolProps* p) {
  if (!p || p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    const bool host = p->location.type == CU_MEM_LOCATION_TYPE_HOST ||
                      p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    return host ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  }
  if (p->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return valid_device(p->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check(const CUmemLocation* location, CUmemAllocationType type) {
  if (!location || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return valid_device(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult set_pool(int device, CUmemoryPool handle) {
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!pool || handle->file >= 0 || pool->device() != device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  set_current_pool(device, handle);
  return CUDA_SUCCESS;
}

// Whose device memory a file is; -1 if it is no such file.
int device_of(int file) {
  char path[64];
  char target[128] = {};
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  int device = -1;
  if (readlink(path, target, sizeof target - 1) <= 0 ||
      sscanf(target, "/memfd:simgpu-device%d", &device) != 1) {
    return -1;
  }
  return device;
}

// A piece of another process's pool.
class ImportedPiece {
 public:
  static std::shared_ptr<ImportedPiece> map(int file, uint64_t offset, uint64_t bytes) {
    const uint64_t start = offset / kPageBytes * kPageBytes;
    const size_t length = round_up(offset + bytes - start, kPageBytes);
    void* memory =
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(start));
    return memory == MAP_FAILED ? nullptr
                                : std::make_shared<ImportedPiece>(memory, length, offset - start);
  }
  ImportedPiece(void* memory, size_t length, size_t skip)
      : memory_(memory), length_(length), skip_(skip) {}
  ImportedPiece(const ImportedPiece&) = delete;
  ImportedPiece& operator=(const ImportedPiece&) = delete;
  ~ImportedPiece() { munmap(memory_, length_); }
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(memory_) + skip_; }

 private:
  void* memory_;
  size_t length_;
  size_t skip_;
};

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!pool || !valid_device(device)) {
    return pool ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  }
  *pool = default_pool(device);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!pool || !valid_device(device)) {
    return pool ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  }
  *pool = current_pool(device);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  SIMGPU_DRIVER_ENTER();
  return valid_device(device) ? set_pool(device, pool) : CUDA_ERROR_INVALID_DEVICE;
}

extern "C" CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                           CUmemAllocationType type) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check(location, type));
  if (!pool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pool = default_pool(location->id);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                    CUmemAllocationType type) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check(location, type));
  if (!pool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pool = current_pool(location->id);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                                    CUmemoryPool pool) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check(location, type));
  return set_pool(location->id, pool);
}

extern "C" CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  SIMGPU_DRIVER_ENTER();
  SIMGPU_TRY(check(properties));
  if (!pool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pool = new_pool_handle(std::make_shared<Pool>(*properties, properties->location.id));
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  SIMGPU_DRIVER_ENTER();
  if (!find_pool(handle) || handle->is_default || !handle->alive.exchange(false)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (handle->file >= 0) {
    close(handle->file);
  }
  retire_pool_handle(handle);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes) {
  SIMGPU_DRIVER_ENTER();
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!pool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  pool->trim(keep_bytes);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void* value) {
  SIMGPU_DRIVER_ENTER();
  const std::shared_ptr<Pool> pool = find_pool(handle);
  return pool && value ? pool->set(attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void* value) {
  SIMGPU_DRIVER_ENTER();
  const std::shared_ptr<Pool> pool = find_pool(handle);
  return pool && value ? pool->get(attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* wanted,
                                       size_t count) {
  SIMGPU_DRIVER_ENTER();
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!pool || (!wanted && count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    SIMGPU_TRY(pool->set_access(wanted[i]));
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                                       CUmemLocation* location) {
  SIMGPU_DRIVER_ENTER();
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!flags || !pool || !location) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = pool->access(*location);
  return CUDA_SUCCESS;
}

// The file is the device's whole linear memory; what of it belongs to the pool is said pointer by
// pointer.
extern "C" CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle,
                                                     CUmemAllocationHandleType type,
                                                     unsigned long long flags) {
  SIMGPU_DRIVER_ENTER();
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!out || !pool || flags || handle->file >= 0 ||
      !(pool->properties().handleTypes & type & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = dup(device_memory(pool->device()).file);
  if (file < 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *static_cast<int*>(out) = file;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* os_handle,
                                                       CUmemAllocationHandleType type,
                                                       unsigned long long flags) {
  SIMGPU_DRIVER_ENTER();
  const int theirs = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  const int device = device_of(theirs);
  if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !valid_device(device)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  const int file = dup(theirs);
  if (file < 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = new_pool_handle(std::make_shared<Pool>(properties, device));
  (*out)->file = file;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  SIMGPU_DRIVER_ENTER();
  const RangePtr range = address_map().find(address);
  if (!data || !range || !range->owner || range->base != address ||
      !(range->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  write_ipc_name({kIpcPoolPointer, range->device, RemoteFile::own(range->file), range->file_offset,
                  range->bytes, range->id},
                 *data);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool handle,
                                           CUmemPoolPtrExportData* data) {
  SIMGPU_CONTEXT_ENTER();
  const std::shared_ptr<Pool> pool = find_pool(handle);
  IpcName name;
  if (!out || !pool || handle->file < 0 || !data || !read_ipc_name(*data, kIpcPoolPointer, name)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<ImportedPiece> piece = ImportedPiece::map(handle->file, name.offset, name.bytes);
  if (!piece) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto range = std::make_shared<Range>();
  range->base = piece->address();
  range->bytes = name.bytes;
  range->kind = RangeKind::kPool;
  range->device = pool->device();
  range->context = current_context();
  range->pool = handle;
  range->backing = std::move(piece);
  address_map().insert(range);
  pool_chunks().insert(range);
  *out = range->base;
  return CUDA_SUCCESS;
}
