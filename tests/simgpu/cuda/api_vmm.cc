// Reserving addresses, mapping, access.
#include <sys/mman.h>

#include <algorithm>
#include <thread>

#include "cuda/vmm.h"

namespace simgpu {
namespace {

constexpr int kNowhere = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

bool granular(uint64_t value) {
  return value % kGranularityBytes == 0;
}

// Addresses for `bytes` at a multiple of `alignment`: more is mapped and the ends are given back.
uintptr_t reserve(size_t bytes, size_t alignment, uintptr_t hint) {
  const size_t total = bytes + alignment;
  if (total < bytes) {
    return 0;
  }
  void* memory = mmap(reinterpret_cast<void*>(hint), total, PROT_NONE, kNowhere, -1, 0);
  if (memory == MAP_FAILED) {
    return 0;
  }
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t base = round_up(start, alignment);
  if (base > start) {
    munmap(memory, base - start);
  }
  munmap(reinterpret_cast<void*>(base + bytes), start + total - base - bytes);
  return base;
}

RangePtr mapping_of(const VirtualAllocation& allocation, uintptr_t address, size_t bytes,
                    size_t offset) {
  auto range = std::make_shared<Range>();
  range->base = address;
  range->bytes = bytes;
  range->kind = RangeKind::kVirtual;
  range->device = allocation.physical->device();
  range->handle_types = allocation.properties.requestedHandleTypes;
  range->physical_id = allocation.handle;
  range->readable = range->writable = 0;
  range->backing = allocation.physical;
  range->file = allocation.physical->file();
  range->file_offset = offset;
  return range;
}

// A copy that is under way may still hold the mapping; it takes no longer than moving its bytes.
void unmap_when_unused(RangePtr range) {
  const std::weak_ptr<Range> users = range;
  const uintptr_t base = range->base;
  const size_t bytes = range->bytes;
  range.reset();
  while (!users.expired()) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  static_cast<void>(
      mmap(reinterpret_cast<void*>(base), bytes, PROT_NONE, kNowhere | MAP_FIXED, -1, 0));
}

struct Access {
  unsigned devices = 0;  // bit per device
  bool readable = false;
  bool writable = false;
};

CUresult read_access(const CUmemAccessDesc& wanted, Access& access) {
  switch (wanted.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (!valid_device(wanted.location.id)) {
        return CUDA_ERROR_INVALID_DEVICE;
      }
      access.devices = 1u << wanted.location.id;
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      access.devices = 1u << kMaxDevices;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  access.readable = wanted.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  access.writable = wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

void set_bits(std::atomic<unsigned>& mask, unsigned bits, bool on) {
  on ? mask.fetch_or(bits) : mask.fetch_and(~bits);
}

// All devices reach the memory through the same pages of this process: they allow what any device
// may.
CUresult protect(const Range& range, bool readable, bool writable) {
  const int protection = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);
  const int result = mprotect(reinterpret_cast<void*>(range.base), range.bytes, protection);
  return result == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A copy of another thread's looks at the masks before it touches the pages: these allow more
// before the masks say so, and less after.
CUresult allow(Range& range, const Access& access) {
  SIMGPU_TRY(protect(range, range.readable || access.readable, range.writable || access.writable));
  set_bits(range.readable, access.devices, access.readable);
  set_bits(range.writable, access.devices, access.writable);
  return protect(range, range.readable, range.writable);
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment,
                                        CUdeviceptr hint, unsigned long long flags) {
  SIMGPU_DRIVER_ENTER();
  const bool power_of_two = (alignment & (alignment - 1)) == 0;
  if (!address || bytes == 0 || bytes % kPageBytes || hint % kPageBytes || !power_of_two || flags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uintptr_t base = reserve(bytes, std::max(alignment, kGranularityBytes), hint);
  if (!base) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  memory.reservations[base] = bytes;
  *address = base;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  SIMGPU_DRIVER_ENTER();
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  const auto found = memory.reservations.find(address);
  if (found == memory.reservations.end() || found->second != bytes ||
      !address_map().overlapping(address, bytes).empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  memory.reservations.erase(found);
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags) {
  SIMGPU_DRIVER_ENTER();
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  VirtualAllocation* allocation = memory.find(handle);
  if (!allocation || bytes == 0 || !granular(address) || !granular(bytes) || !granular(offset) ||
      flags || offset > allocation->physical->bytes() ||
      bytes > allocation->physical->bytes() - offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const AddressSpan reserved = memory.around(address);
  if (reserved.bytes == 0 || bytes > reserved.base + reserved.bytes - address ||
      !address_map().overlapping(address, bytes).empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* const at = reinterpret_cast<void*>(address);
  if (mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, allocation->physical->file(),
           static_cast<off_t>(offset)) != at) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  address_map().insert(mapping_of(*allocation, address, bytes, offset));
  ++allocation->mappings;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  SIMGPU_DRIVER_ENTER();
  std::vector<RangePtr> mappings = whole_mappings(address, bytes);
  if (bytes == 0 || mappings.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (RangePtr& range : mappings) {
    const CUmemGenericAllocationHandle handle = range->physical_id;
    const uint64_t id = range->id;
    if (!address_map().remove(range->base, [id](const Range& other) { return other.id == id; })) {
      return CUDA_ERROR_INVALID_VALUE;  // another thread was faster
    }
    unmap_when_unused(std::move(range));
    VirtualMemory& memory = virtual_memory();
    const std::lock_guard lock(memory.mutex);
    --memory.find(handle)->mappings;
    memory.drop_if_unused(handle);
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* wanted,
                                   size_t count) {
  SIMGPU_DRIVER_ENTER();
  const std::vector<RangePtr> mappings = whole_mappings(address, bytes);
  if (mappings.empty() || !wanted || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    Access access;
    SIMGPU_TRY(read_access(wanted[i], access));
    for (const RangePtr& range : mappings) {
      SIMGPU_TRY(allow(*range, access));
    }
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                   CUdeviceptr address) {
  SIMGPU_DRIVER_ENTER();
  const RangePtr range = address_map().find(address);
  if (!flags || !location || !range || range->kind != RangeKind::kVirtual) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Access access;
  SIMGPU_TRY(read_access({*location, CU_MEM_ACCESS_FLAGS_PROT_READ}, access));
  *flags = range->writable & access.devices   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : range->readable & access.devices ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                              : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
