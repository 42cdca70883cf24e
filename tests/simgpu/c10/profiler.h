// What libc10.so exports of PyTorch 1.6 to 2.x for its profiler.  The mangled names are those of
// c10.
#pragma once

#include <cstddef>
#include <cstdint>

namespace c10 {

struct Device {
  int8_t type;  // 1: CUDA
  int8_t index;
};
inline constexpr int8_t kCuda = 1;

// NOLINTBEGIN(readability-identifier-naming): c10's names
#define C10_EXPORT [[gnu::visibility("default")]]
C10_EXPORT void reportMemoryUsageToProfiler(Device, int64_t change);               // 1.6
C10_EXPORT void reportMemoryUsageToProfiler(void* block, int64_t change, Device);  // 1.7 to 1.9
C10_EXPORT void reportMemoryUsageToProfiler(void* address, int64_t change, int64_t allocated,
                                            int64_t reserved, Device);  // 1.10 to 1.13
C10_EXPORT void reportMemoryUsageToProfiler(void* address, int64_t change, size_t allocated,
                                            size_t reserved, Device);  // 2.x
C10_EXPORT void reportOutOfMemoryToProfiler(int64_t bytes, int64_t allocated, int64_t reserved,
                                            Device);  // 1.10 to 1.13
C10_EXPORT void reportOutOfMemoryToProfiler(int64_t bytes, size_t allocated, size_t reserved,
                                            Device);  // 2.x
C10_EXPORT void reportOutOfMemoryToProfiler(size_t bytes, size_t allocated, size_t reserved,
                                            Device);  // seen in sources
// NOLINTEND(readability-identifier-naming)

}  // namespace c10

// What arrived here, to see that nobody on the way keeps it.
extern "C" C10_EXPORT uint64_t c10sim_reports();
extern "C" C10_EXPORT int64_t c10sim_reported_change();
