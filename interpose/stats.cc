#include "interpose/stats.h"

namespace traintrace {

constinit uint64_t* g_stats = nullptr;
constinit uint64_t g_early_stats[static_cast<int>(format::Stat::kCount)] = {};

void stats_go_to(uint64_t* stats) noexcept {
  for (int i = 0; i < static_cast<int>(format::Stat::kCount); ++i) {
    const uint64_t early = __atomic_exchange_n(&g_early_stats[i], 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&stats[i], early, __ATOMIC_RELAXED);
  }
  g_stats = stats;
}

}  // namespace traintrace
