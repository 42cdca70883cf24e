// Counting what is lost.  Safe from every thread, at any time: before arming it counts into memory
// that the trace takes over.
#pragma once

#include <cstdint>

#include "format/schema.h"
#include "interpose/guard.h"

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

// Where is counted from the arming on.
void stats_go_to(uint64_t* stats) noexcept;

// Moves what was counted early to the trace; once it is armed.  Who counts early while that happens
// moves it too: one of the two sees the other's store.
void take_early_stats() noexcept;

}  // namespace traintrace
