// What may be an address in a process that runs Python.
#pragma once

#include <cstdint>

namespace traintrace {

// An address that objects can have.
inline bool plausible_address(uint64_t address) noexcept {
#if defined(__x86_64__)
  constexpr uint64_t kEnd = uint64_t{1} << 47;  // beyond it a load faults otherwise than by a page
#else
  constexpr uint64_t kEnd = uint64_t{1} << 48;
#endif
  return address % 8 == 0 && address - 4096 < kEnd - 4096;
}

}  // namespace traintrace
