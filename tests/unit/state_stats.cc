// uses: interpose/record/stats.cc
// What is lost is counted, also while the trace is being armed.
#include "interpose/record/stats.h"

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
}

// As a forked child finds it.
void forget_trace() {
  g_guard.words = {};
}

TEST(Stats, WhatWasCountedEarlyIsInTheTrace) {
  forget_trace();
  Stats stats = {};
  count(Stat::BeforeArming);
  count(Stat::ThreadsFull, 3);
  EXPECT_EQ(stats, Stats());
  arm(stats);
  count(Stat::ThreadsFull);
  EXPECT_EQ(of(stats, Stat::BeforeArming), 1u);
  EXPECT_EQ(of(stats, Stat::ThreadsFull), 4u);
}

TEST(Stats, AreInTheTraceBeforeItIsArmed) {
  forget_trace();
  Stats stats = {};
  stats_go_to(stats.data());
  count(Stat::BeforeArming, 2);
  EXPECT_EQ(of(stats, Stat::BeforeArming), 2u);
  forget_trace();
  count(Stat::BeforeArming);
  EXPECT_EQ(of(stats, Stat::BeforeArming), 2u) << "a child does not write into its parent's";
  Stats of_child = {};
  stats_go_to(of_child.data());
  EXPECT_EQ(of(of_child, Stat::BeforeArming), 1u);
}

TEST(Stats, NothingIsLostBetweenEarlyAndArmed) {
  constexpr int kThreads = 4;
  constexpr int kCounts = 200;
  for (int round = 0; round < 300; ++round) {
    forget_trace();
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
