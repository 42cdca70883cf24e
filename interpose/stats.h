// Counting what is lost.  Safe from every thread, at any time: before arming it counts into memory
// that the trace takes over.
#pragma once

#include <cstdint>

#include "format/schema.h"
#include "interpose/guard.h"

namespace traintrace {

extern uint64_t* g_stats;  // section kStats of the trace
extern uint64_t g_early_stats[static_cast<int>(format::Stat::kCount)];

inline void count(format::Stat stat, uint64_t times = 1) noexcept {
  uint64_t* const stats = armed_generation() ? g_stats : g_early_stats;
  __atomic_fetch_add(&stats[static_cast<int>(stat)], times, __ATOMIC_RELAXED);
}

// Moves what was counted so far to the trace; just before it is armed.
void stats_go_to(uint64_t* stats) noexcept;

}  // namespace traintrace
