// Counting what is lost.  Safe from every thread, at any time: before arming it counts into memory
// that the trace takes over.
#pragma once

#include <cstdint>

#include "format/schema.h"
#include "interpose/base/guard.h"

namespace traintrace {

extern uint64_t* g_stats;  // section kStats of the trace

void count_early(format::Stat stat, uint64_t times) noexcept;

inline void count(format::Stat stat, uint64_t times = 1) noexcept {
  if (armed_generation()) {
    __atomic_fetch_add(&g_stats[static_cast<int>(stat)], times, __ATOMIC_RELAXED);
  } else {
    count_early(stat, times);
  }
}

// Where is counted from now on, and what was counted before: a process that ends while the tracer
// starts leaves a trace that says what it misses.
void stats_go_to(uint64_t* stats) noexcept;

}  // namespace traintrace
