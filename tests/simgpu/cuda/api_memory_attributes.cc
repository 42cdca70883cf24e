// What CUDA knows about a pointer.
#include <cstring>

#include "cuda/memory.h"
#include "cuda/vmm.h"

namespace simgpu {
namespace {

// Writes `value` as the type that the attribute has.
template <class T>
CUresult put(void* data, T value) {
  memcpy(data, &value, sizeof(T));  // NOLINT(bugprone-sizeof-expression): pointers are values
  return CUDA_SUCCESS;
}

CUmemorytype memory_type(const Range& range) {
  const bool host = !range.on_device() && range.kind != RangeKind::kManaged;
  return host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

unsigned access_flags(const Range& range) {
  Context* current = current_context();
  const unsigned bit = 1u << (current ? current->device : range.device);
  const bool readable = range.readable & bit;
  const bool writable = range.writable & bit;
  return readable && writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
         : readable           ? CU_MEM_ACCESS_FLAGS_PROT_READ
                              : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

// The reserved range around a mapping; the range itself for everything else.
AddressSpan mappable(const Range& range) {
  const AddressSpan reserved = reservation_around(range.base);
  return reserved.bytes ? reserved : AddressSpan{range.base, range.bytes};
}

CUresult get_place(const Range& range, CUpointer_attribute attribute, CUdeviceptr address,
                   void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(data, static_cast<CUcontext>(range.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(data, static_cast<unsigned>(memory_type(range)));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (range.on_device()) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      return put(data, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(data, range.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(data, static_cast<CUdeviceptr>(mappable(range).base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, mappable(range).bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put(data, static_cast<CUdeviceptr>(range.base));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put(data, range.bytes);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult get(const Range& range, CUpointer_attribute attribute, CUdeviceptr address, void* data) {
  const bool linear = range.kind == RangeKind::kDevice;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return put(data, static_cast<unsigned>(range.sync_memops.load()));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(data, static_cast<unsigned long long>(range.id));
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return put(data,
                 static_cast<unsigned long long>(range.physical_id ? range.physical_id : range.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(data, static_cast<unsigned>(range.kind == RangeKind::kManaged));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(data, static_cast<int>(linear));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(data, 1u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(data, static_cast<unsigned long long>(range.handle_types));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return put(data, 0u);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(data, access_flags(range));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(data, range.pool);
    default:
      return get_place(range, attribute, address, data);
  }
}

// Zero of the right size, for pointers that CUDA does not know.
CUresult put_nothing(CUpointer_attribute attribute, CUdeviceptr address, void* data) {
  Range nothing;
  nothing.context = nullptr;
  nothing.id = 0;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(data, 0u);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(data, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(data, int{CU_DEVICE_INVALID});
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return put(data, static_cast<void*>(nullptr));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, size_t{0});
    default:
      return get(nothing, attribute, attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ? 0 : address,
                 data);
  }
}

// Reserved addresses have a range also where nothing is mapped.
bool get_unmapped(CUpointer_attribute attribute, CUdeviceptr address, void* data) {
  const AddressSpan reserved = reservation_around(address);
  if (reserved.bytes == 0) {
    return false;
  }
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(data, static_cast<CUdeviceptr>(reserved.base)) == CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, reserved.bytes) == CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(data, 0u) == CUDA_SUCCESS;
    default:
      return false;
  }
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                          CUdeviceptr address) {
  SIMGPU_DRIVER_ENTER();
  if (!data) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const RangePtr range = address_map().find(address)) {
    return get(*range, attribute, address, data);
  }
  return get_unmapped(attribute, address, data) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Unlike the above it knows no bad pointer: what does not apply becomes zero.
extern "C" CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                           void** data, CUdeviceptr address) {
  SIMGPU_DRIVER_ENTER();
  if (count == 0 || !attributes || !data) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const RangePtr range = address_map().find(address);
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = range ? get(*range, attributes[i], address, data[i]) : CUDA_ERROR_NOT_FOUND;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED &&
        (range || !get_unmapped(attributes[i], address, data[i]))) {
      result = put_nothing(attributes[i], address, data[i]);
    }
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                          CUdeviceptr address) {
  SIMGPU_CONTEXT_ENTER();
  const RangePtr range = address_map().find(address);
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !range || !range->on_device()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  unsigned wanted = 0;
  memcpy(&wanted, value, sizeof wanted);
  if (wanted) {
    SIMGPU_TRY(synchronize_users(*range));  // also for the copies that are under way
  }
  range->sync_memops = wanted != 0;
  return CUDA_SUCCESS;
}
