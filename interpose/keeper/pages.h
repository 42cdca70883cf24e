// The memory of a trace as whoever copies it sees it: pages, which change meanwhile.
#pragma once

#include <cstdint>
#include <cstring>

#include "format/trace_format.h"

namespace traintrace {

inline constexpr uint64_t kPage = 4096;

inline uint64_t whole_pages(uint64_t bytes) noexcept {
  return (bytes + kPage - 1) / kPage * kPage;
}

inline const char* begin_of(const format::FileHeader& memory,
                            const format::Section& section) noexcept {
  return reinterpret_cast<const char*>(&memory) + section.offset;
}

inline bool is_zero(const char* from, uint64_t bytes) noexcept {
  return bytes == 0 || (from[0] == 0 && memcmp(from, from + 1, bytes - 1) == 0);
}

// Elements change while they are copied: until two readings agree, as far as that can be waited
// for.
inline void copy_still(char* to, const char* from, uint64_t bytes) noexcept {
  constexpr int kReadings = 4;
  for (int reading = 0; reading < kReadings; ++reading) {
    memcpy(to, from, bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (memcmp(to, from, bytes) == 0) {
      break;
    }
  }
}

}  // namespace traintrace
