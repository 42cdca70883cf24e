// Virtual memory management: reserved addresses, physical allocations, and mappings of the one into
// the other.
#pragma once
#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>

#include "cuda/memory.h"

namespace simgpu {

struct AddressSpan {
  uintptr_t base = 0;
  size_t bytes = 0;
};

// What cuMemCreate made.  Lives while there are references by handle or mappings.
struct VirtualAllocation {
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties = {};
  std::shared_ptr<Physical> physical;
  unsigned references = 0;
  unsigned mappings = 0;
};

struct VirtualMemory {
  std::mutex mutex;  // guards everything here
  std::map<uintptr_t, size_t> reservations;
  std::map<CUmemGenericAllocationHandle, VirtualAllocation> allocations;
  CUmemGenericAllocationHandle next_handle = 1;

  VirtualAllocation* find(CUmemGenericAllocationHandle handle);
  AddressSpan around(uintptr_t address) const;
  CUmemGenericAllocationHandle add(std::shared_ptr<Physical> physical,
                                   const CUmemAllocationProp& properties);
  void drop_if_unused(CUmemGenericAllocationHandle handle);
};
VirtualMemory& virtual_memory();

// The cuMemAddressReserve range that contains `address`; 0 bytes if there is none.
AddressSpan reservation_around(uintptr_t address);

// The mappings that make up exactly [address, address + bytes); empty if they do not.
std::vector<RangePtr> whole_mappings(uintptr_t address, size_t bytes);

}  // namespace simgpu
