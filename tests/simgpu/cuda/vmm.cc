#include "cuda/vmm.h"

#include <iterator>

namespace simgpu {

VirtualMemory& virtual_memory() {
  static VirtualMemory& memory = *new VirtualMemory;
  return memory;
}

VirtualAllocation* VirtualMemory::find(CUmemGenericAllocationHandle handle) {
  const auto found = allocations.find(handle);
  return found == allocations.end() ? nullptr : &found->second;
}

AddressSpan VirtualMemory::around(uintptr_t address) const {
  const auto after = reservations.upper_bound(address);
  if (after == reservations.begin()) {
    return {};
  }
  const auto& [base, bytes] = *std::prev(after);
  return address - base < bytes ? AddressSpan{base, bytes} : AddressSpan{};
}

CUmemGenericAllocationHandle VirtualMemory::add(std::shared_ptr<Physical> physical,
                                                const CUmemAllocationProp& properties) {
  const CUmemGenericAllocationHandle handle = next_handle++;
  allocations[handle] = {handle, properties, std::move(physical), 1, 0};
  return handle;
}

void VirtualMemory::drop_if_unused(CUmemGenericAllocationHandle handle) {
  const VirtualAllocation* allocation = find(handle);
  if (allocation && allocation->references == 0 && allocation->mappings == 0) {
    allocations.erase(handle);
  }
}

AddressSpan reservation_around(uintptr_t address) {
  VirtualMemory& memory = virtual_memory();
  const std::lock_guard lock(memory.mutex);
  return memory.around(address);
}

std::vector<RangePtr> whole_mappings(uintptr_t address, size_t bytes) {
  std::vector<RangePtr> found = address_map().overlapping(address, bytes);
  uintptr_t next = address;
  for (const RangePtr& range : found) {
    if (range->kind != RangeKind::kVirtual || range->base != next) {
      return {};
    }
    next = range->end();
  }
  return next == address + bytes ? found : std::vector<RangePtr>{};
}

}  // namespace simgpu
