#include "interpose/stats.h"

namespace traintrace {
namespace {

constinit uint64_t g_early_stats[static_cast<int>(format::Stat::kCount)] = {};

}  // namespace

constinit uint64_t* g_stats = nullptr;

void count_early(format::Stat stat, uint64_t times) noexcept {
  __atomic_fetch_add(&g_early_stats[static_cast<int>(stat)], times, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (armed_generation()) {
    take_early_stats();
  }
}

void stats_go_to(uint64_t* stats) noexcept {
  g_stats = stats;
}

void take_early_stats() noexcept {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (int i = 0; i < static_cast<int>(format::Stat::kCount); ++i) {
    if (const uint64_t early = __atomic_exchange_n(&g_early_stats[i], 0, __ATOMIC_RELAXED)) {
      __atomic_fetch_add(&g_stats[i], early, __ATOMIC_RELAXED);
    }
  }
}

}  // namespace traintrace
