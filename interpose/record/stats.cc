#include "interpose/record/stats.h"

namespace traintrace {
namespace {

constinit uint64_t g_early_stats[static_cast<int>(format::Stat::kCount)] = {};

// Moves what was counted early to the trace.
void take_early_stats() noexcept {
  for (int i = 0; i < static_cast<int>(format::Stat::kCount); ++i) {
    if (const uint64_t early = __atomic_exchange_n(&g_early_stats[i], 0, __ATOMIC_RELAXED)) {
      __atomic_fetch_add(&g_stats[i], early, __ATOMIC_RELAXED);
    }
  }
}

}  // namespace

constinit uint64_t* g_stats = nullptr;

void count_early(format::Stat stat, uint64_t times) noexcept {
  __atomic_fetch_add(&g_early_stats[static_cast<int>(stat)], times, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (__atomic_load_n(&g_guard.words.counts, __ATOMIC_ACQUIRE) != 0) {
    take_early_stats();
  }
}

// Who counts early while that happens moves it too: one of the two sees the other's store.
void stats_go_to(uint64_t* stats) noexcept {
  g_stats = stats;
  __atomic_store_n(&g_guard.words.counts, 1, __ATOMIC_RELEASE);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  take_early_stats();
}

}  // namespace traintrace
