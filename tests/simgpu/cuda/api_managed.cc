// Prefetches, advice and range attributes of managed memory.
#include <cudaTypedefs.h>

#include <cstring>
#include <type_traits>

#include "cuda/managed.h"
#include "cuda/memory.h"
#include "cuda/old_names.h"
#include "cuda/per_thread.h"
#include "cuda/stream_work.h"

namespace simgpu {
namespace {

bool managed(CUdeviceptr address, size_t bytes) {
  const RangePtr range = bytes ? address_map().find(address) : nullptr;
  return range && range->kind == RangeKind::kManaged && bytes <= range->end() - address;
}

CUresult check(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return valid_device(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// The older calls name a device or CU_DEVICE_CPU.
CUmemLocation location_of(CUdevice device) {
  const bool host = device == CU_DEVICE_CPU;
  return {host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, host ? 0 : device};
}

int device_of(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return location.id;
    case CU_MEM_LOCATION_TYPE_INVALID:
      return CU_DEVICE_INVALID;
    default:
      return CU_DEVICE_CPU;
  }
}

void remember_prefetch(Advice& advice, const CUmemLocation& to) {
  advice.prefetched = to;
}

CUresult prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation& to, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  SIMGPU_TRY(check(to));
  if (!managed(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIMGPU_TRY(submit(*stream, empty_work()));
  change_advice(address, bytes, remember_prefetch, to);
  return CUDA_SUCCESS;
}

void set_accessed_by(Advice& advice, const CUmemLocation& by, bool on) {
  if (by.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    advice.accessed_by_host = on;
  } else if (on) {
    advice.accessed_by |= 1u << by.id;
  } else {
    advice.accessed_by &= ~(1u << by.id);
  }
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                const CUmemLocation& location) {
  if (!managed(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void (*change)(Advice&, const CUmemLocation&) = nullptr;
  bool needs_location = false;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
      change = [](Advice& a, const CUmemLocation&) { a.read_mostly = true; };
      break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      change = [](Advice& a, const CUmemLocation&) { a.read_mostly = false; };
      break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      change = [](Advice& a, const CUmemLocation& to) { a.preferred = to; };
      needs_location = true;
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      change = [](Advice& a, const CUmemLocation&) { a.preferred = Advice{}.preferred; };
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      change = [](Advice& a, const CUmemLocation& by) { set_accessed_by(a, by, true); };
      needs_location = true;
      break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      change = [](Advice& a, const CUmemLocation& by) { set_accessed_by(a, by, false); };
      needs_location = true;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (needs_location) {
    SIMGPU_TRY(check(location));
  }
  change_advice(address, bytes, change, location);
  return CUDA_SUCCESS;
}

CUresult put_int(void* data, size_t bytes, int value) {
  if (bytes != sizeof value) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult put_accessed_by(void* data, size_t bytes, const Advice& advice) {
  if (bytes == 0 || bytes % sizeof(int)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int* out = static_cast<int*>(data);
  int* const end = out + bytes / sizeof(int);
  if (advice.accessed_by_host && out != end) {
    *out++ = CU_DEVICE_CPU;
  }
  for (int device = 0; device < kMaxDevices && out != end; ++device) {
    if (advice.accessed_by & (1u << device)) {
      *out++ = device;
    }
  }
  while (out != end) {
    *out++ = CU_DEVICE_INVALID;
  }
  return CUDA_SUCCESS;
}

CUresult range_attribute(void* data, size_t bytes, CUmem_range_attribute attribute,
                         CUdeviceptr address, size_t count) {
  if (!data || !managed(address, count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Advice advice = common_advice(address, count);
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return put_int(data, bytes, advice.read_mostly);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return put_int(data, bytes, device_of(advice.preferred));
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      return put_accessed_by(data, bytes, advice);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return put_int(data, bytes, device_of(advice.prefetched));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return put_int(data, bytes, advice.preferred.type);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return put_int(data, bytes, advice.preferred.id);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return put_int(data, bytes, advice.prefetched.type);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return put_int(data, bytes, advice.prefetched.id);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

struct Locations {
  const CUmemLocation* list;  // null: only discards
  const size_t* first_ranges;
  size_t count;
};

CUresult check(const Locations& locations, size_t ranges) {
  if (!locations.list || !locations.first_ranges || locations.count == 0 ||
      locations.count > ranges || locations.first_ranges[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < locations.count; ++i) {
    const size_t first = locations.first_ranges[i];
    if (first >= ranges || (i && first <= locations.first_ranges[i - 1])) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    SIMGPU_TRY(check(locations.list[i]));
  }
  return CUDA_SUCCESS;
}

// Discarded contents may be anything: what was there stays.
CUresult batch(const CUdeviceptr* addresses, const size_t* bytes, size_t count,
               const Locations* locations, unsigned long long flags, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  if (stream->legacy || !addresses || !bytes || count == 0 || flags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!managed(addresses[i], bytes[i])) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (locations) {
    SIMGPU_TRY(check(*locations, count));
  }
  SIMGPU_TRY(submit(*stream, empty_work()));
  size_t at = 0;
  for (size_t i = 0; locations && i < count; ++i) {
    while (at + 1 < locations->count && locations->first_ranges[at + 1] <= i) {
      ++at;
    }
    change_advice(addresses[i], bytes[i], remember_prefetch, locations->list[at]);
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUmemLocation location,
                                       unsigned flags, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return flags ? CUDA_ERROR_INVALID_VALUE : prefetch(address, bytes, location, stream);
}

extern "C" CUresult simgpu_old_cuMemPrefetchAsync(CUdeviceptr address, size_t bytes,
                                                  CUdevice device, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return prefetch(address, bytes, location_of(device), stream);
}

extern "C" CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                                CUmemLocation location) {
  SIMGPU_CONTEXT_ENTER();
  return advise(address, bytes, advice, location);
}

extern "C" CUresult simgpu_old_cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                                           CUdevice device) {
  SIMGPU_CONTEXT_ENTER();
  return advise(address, bytes, advice, location_of(device));
}

extern "C" CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* bytes, size_t count,
                                            CUmemLocation* locations, size_t* first_ranges,
                                            size_t location_count, unsigned long long flags,
                                            CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  const Locations to = {locations, first_ranges, location_count};
  return batch(addresses, bytes, count, &to, flags, stream);
}

extern "C" CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* bytes, size_t count,
                                           unsigned long long flags, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  return batch(addresses, bytes, count, nullptr, flags, stream);
}

extern "C" CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* bytes,
                                                      size_t count, CUmemLocation* locations,
                                                      size_t* first_ranges, size_t location_count,
                                                      unsigned long long flags, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  const Locations to = {locations, first_ranges, location_count};
  return batch(addresses, bytes, count, &to, flags, stream);
}

extern "C" CUresult cuMemRangeGetAttribute(void* data, size_t bytes,
                                           CUmem_range_attribute attribute, CUdeviceptr address,
                                           size_t count) {
  SIMGPU_CONTEXT_ENTER();
  return range_attribute(data, bytes, attribute, address, count);
}

extern "C" CUresult cuMemRangeGetAttributes(void** data, size_t* bytes,
                                            CUmem_range_attribute* attributes,
                                            size_t attribute_count, CUdeviceptr address,
                                            size_t count) {
  SIMGPU_CONTEXT_ENTER();
  if (!data || !bytes || !attributes || attribute_count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < attribute_count; ++i) {
    SIMGPU_TRY(range_attribute(data[i], bytes[i], attributes[i], address, count));
  }
  return CUDA_SUCCESS;
}

SIMGPU_PER_THREAD(cuMemPrefetchAsync, cuMemPrefetchAsync_v2_ptsz);
SIMGPU_PER_THREAD(simgpu_old_cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz);
SIMGPU_PER_THREAD(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz);
SIMGPU_PER_THREAD(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz);
SIMGPU_PER_THREAD(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz);

#undef cuMemPrefetchAsync
#undef cuMemAdvise
static_assert(
    std::is_same_v<PFN_cuMemPrefetchAsync_v8000, decltype(&simgpu_old_cuMemPrefetchAsync)>);
static_assert(std::is_same_v<PFN_cuMemAdvise_v8000, decltype(&simgpu_old_cuMemAdvise)>);
SIMGPU_OLD_NAME(cuMemPrefetchAsync, simgpu_old_cuMemPrefetchAsync);
SIMGPU_OLD_NAME(cuMemAdvise, simgpu_old_cuMemAdvise);
