// uses: interpose/stats.cc
// What is lost is counted, also while the trace is being armed.
#include "interpose/stats.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace traintrace {

constinit GuardPage g_guard = {};

namespace {

using format::Stat;

using Stats = std::array<uint64_t, static_cast<int>(Stat::kCount)>;

uint64_t of(const Stats& stats, Stat stat) {
  return stats[static_cast<int>(stat)];
}

void arm(Stats& stats) {
  stats_go_to(stats.data());
  __atomic_store_n(&g_guard.words.armed, 1, __ATOMIC_RELEASE);
  take_early_stats();
}

TEST(Stats, WhatWasCountedEarlyIsInTheTrace) {
  g_guard.words.armed = 0;
  Stats stats = {};
  count(Stat::BeforeArming);
  count(Stat::ThreadsFull, 3);
  EXPECT_EQ(stats, Stats());
  arm(stats);
  count(Stat::ThreadsFull);
  EXPECT_EQ(of(stats, Stat::BeforeArming), 1u);
  EXPECT_EQ(of(stats, Stat::ThreadsFull), 4u);
}

TEST(Stats, NothingIsLostBetweenEarlyAndArmed) {
  constexpr int kThreads = 4;
  constexpr int kCounts = 200;
  for (int round = 0; round < 300; ++round) {
    g_guard.words.armed = 0;
    Stats stats = {};
    std::atomic<int> counting = 0;
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        ++counting;
        for (int k = 0; k < kCounts; ++k) {
          count(Stat::BeforeArming);
        }
      });
    }
    while (counting == 0) {
      std::this_thread::yield();
    }
    arm(stats);
    for (std::thread& thread : threads) {
      thread.join();
    }
    ASSERT_EQ(of(stats, Stat::BeforeArming), uint64_t{kThreads} * kCounts) << "round " << round;
  }
}

}  // namespace
}  // namespace traintrace
