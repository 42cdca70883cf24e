// The clock of records: the processor's time stamp counter (20 ns less per call than
// clock_gettime), where it is invariant and the kernel does not distrust it.
#pragma once

#include <ctime>

#include <cstdint>

#include "format/trace_format.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace traintrace {

extern bool g_use_tsc;  // set once, before recording starts

inline uint64_t nanoseconds(clockid_t clock) noexcept {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

inline uint64_t clock_ticks() noexcept {
#if defined(__x86_64__)
  if (g_use_tsc) [[likely]] {
    return __rdtsc();
  }
#endif
  return nanoseconds(CLOCK_MONOTONIC);
}

// Reads one system file; call it before the first clock_ticks().
format::ClockKind choose_clock() noexcept;

// Finds by how much a time namespace has moved CLOCK_BOOTTIME, for boottime_ns().  Reads one file
// of /proc.  False: it cannot be told, and boottime_ns() is CLOCK_BOOTTIME as it is here.
bool find_boottime_offset() noexcept;

uint64_t boottime_ns() noexcept;

// One instant in all clocks, boottime_ns() apart, taken several times: the tightest one counts,
// since the thread may be put aside between two readings.
format::ClockAnchor clock_anchor(uint64_t& since_boot_ns) noexcept;

}  // namespace traintrace
