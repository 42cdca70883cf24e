// What a program said about its managed memory.  It changes nothing here but the answers to
// questions.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace simgpu {

struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
  CUmemLocation prefetched = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
  unsigned accessed_by = 0;  // bit per device
  bool accessed_by_host = false;

  bool operator==(const Advice& other) const;
};

// For each part of [address, address + bytes), with the pages that the ends touch.
void change_advice(uintptr_t address, size_t bytes, void (*change)(Advice&, const CUmemLocation&),
                   const CUmemLocation& location);
// Forgets everything about the range: new memory has no advice.
void forget_advice(uintptr_t address, size_t bytes);
// What holds for the whole range: fields that differ between parts are as if never set.
Advice common_advice(uintptr_t address, size_t bytes);

}  // namespace simgpu
