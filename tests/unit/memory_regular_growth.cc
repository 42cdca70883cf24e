// uses: analyzer
// Growth with every evaluation: few rounds, at equal distances.
#include <gtest/gtest.h>

#include "analyzer/memory/growth/regular_growth.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// A round after each `every` steps.
std::vector<Round> rounds(int64_t count, int64_t every) {
  std::vector<Round> rounds;
  for (int64_t i = 1; i <= count; ++i) {
    rounds.push_back({i * every, uint64_t{1} << 20, 1});
  }
  return rounds;
}

TEST(MemoryRegularGrowth, IsSeenInSevenRounds) {
  for (int64_t every = 2; every <= 100; ++every) {
    EXPECT_TRUE(grows_by_rounds(rounds(7, every), 0, 7 * every));
    EXPECT_TRUE(grows_by_rounds(rounds(7, every), 0, 8 * every - 1));
    EXPECT_FALSE(grows_by_rounds(rounds(6, every), 0, 6 * every));
  }
}

TEST(MemoryRegularGrowth, OfEachStepIsJudgedBySteps) {
  EXPECT_FALSE(grows_by_rounds(rounds(7, 1), 0, 7));
}

TEST(MemoryRegularGrowth, GoesOnFromTheBeginningToTheEnd) {
  EXPECT_FALSE(grows_by_rounds(rounds(7, 3), 0, 25)) << "an evaluation left nothing";
  EXPECT_FALSE(grows_by_rounds(rounds(7, 3), -1, 21)) << "it began late";
}

TEST(MemoryRegularGrowth, IsRegular) {
  std::vector<Round> late = rounds(8, 3);
  ++late[4].step;
  EXPECT_FALSE(grows_by_rounds(late, 0, 24));
  std::vector<Round> larger = rounds(8, 3);
  larger[4].bytes *= 2;
  EXPECT_FALSE(grows_by_rounds(larger, 0, 24));
  std::vector<Round> twice = rounds(8, 3);
  twice[4].blocks = 2;
  EXPECT_FALSE(grows_by_rounds(twice, 0, 24));
}

TEST(MemoryRegularGrowth, OfNumbersIsMeant) {
  std::vector<Round> numbers = rounds(20, 3);
  for (Round& each : numbers) {
    each.bytes = kLittleCopy;
  }
  EXPECT_FALSE(grows_by_rounds(numbers, 0, 60));
}

// One block every third step; of each step is known that it began a millisecond after the last.
StackMemoryText allocated(int count, int freed) {
  SeriesBuilder builder;
  for (int i = 0; i < count; ++i) {
    builder.add({7, 0, 0, 1 << 20, 3000 * (i + 1) - 500});
  }
  for (int i = 0; i < freed; ++i) {
    builder.remove(7, 1 << 20);
  }
  builder.count_frees();
  return builder.finish().at(7);
}

Steps steps_until(int64_t end) {
  Steps steps;
  for (int64_t i = 0; i < end; ++i) {
    steps.starts.push_back(i * 1000);
  }
  return steps;
}

TEST(MemoryRegularGrowth, RoundsHaveTheNewestAllocationToo) {
  const std::vector<Round> found = rounds_of(allocated(7, 0), steps_until(21), 0);
  ASSERT_EQ(found.size(), 7u);
  EXPECT_EQ(found.front().step, 3);
  EXPECT_EQ(found.back().step, 21);
  EXPECT_EQ(found.back().bytes, uint64_t{1} << 20);
}

TEST(MemoryRegularGrowth, WhatWasFreedWithinTheStepsLeavesNoRounds) {
  EXPECT_TRUE(rounds_of(allocated(7, 7), steps_until(21), 0).empty());
  EXPECT_TRUE(rounds_of(allocated(7, 2), steps_until(21), 0).empty());
}

}  // namespace
}  // namespace traintrace
