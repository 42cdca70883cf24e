#include <cstring>

#include "cuda/pool.h"

namespace simgpu {
namespace {

template <class T>
CUresult put(void* to, T value) {
  memcpy(to, &value, sizeof value);
  return CUDA_SUCCESS;
}

template <class T>
CUresult read(const void* from, T& value) {
  memcpy(&value, from, sizeof value);
  return CUDA_SUCCESS;
}

// High water marks can only be reset, to what is current.
CUresult reset_high(const void* from, uint64_t& high, uint64_t current) {
  uint64_t wanted = 0;
  read(from, wanted);
  if (wanted != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  high = current;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Pool::get(CUmemPool_attribute attribute, void* value) {
  const std::lock_guard lock(mutex_);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return put(value, follow_events_);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return put(value, opportunistic_);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return put(value, internal_dependencies_);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return put(value, threshold_);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return put(value, reserved_);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return put(value, reserved_high_);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return put(value, used_);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return put(value, used_high_);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Pool::set(CUmemPool_attribute attribute, const void* value) {
  const std::lock_guard lock(mutex_);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return read(value, follow_events_);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return read(value, opportunistic_);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return read(value, internal_dependencies_);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return read(value, threshold_);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return reset_high(value, reserved_high_, reserved_);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return reset_high(value, used_high_, used_);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// The pool's own device always has access.
CUresult Pool::set_access(const CUmemAccessDesc& wanted) {
  if (wanted.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(wanted.location.id)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (wanted.location.id == device_) {
    return wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(mutex_);
  access_[wanted.location.id] = wanted.flags;
  return CUDA_SUCCESS;
}

CUmemAccess_flags Pool::access(const CUmemLocation& location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  if (location.id == device_) {
    return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  const std::lock_guard lock(mutex_);
  const auto found = access_.find(location.id);
  return found == access_.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
}

}  // namespace simgpu
