// uses: analyzer/timeline/spans.cc analyzer/timeline/partition.cc
#include <gtest/gtest.h>

#include <random>

#include "analyzer/timeline/partition.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

TEST(Spans, TouchingOnesAreOneAndEmptyOnesNone) {
  EXPECT_EQ(united({{5, 7}, {1, 3}, {3, 4}, {9, 9}, {6, 2}}), (Spans{{1, 4}, {5, 7}}));
  EXPECT_EQ(length_ns(united({{1, 4}, {2, 3}})), 3);
  EXPECT_EQ(common_ns({{0, 10}, {20, 30}}, {{5, 25}}), 10);
  EXPECT_EQ(common_ns({{0, 10}}, {{10, 20}}), 0);
}

TEST(Spans, DifferenceLeavesWhatTheOtherLacks) {
  EXPECT_EQ(difference({{0, 10}}, {{2, 3}, {5, 7}}), (Spans{{0, 2}, {3, 5}, {7, 10}}));
  EXPECT_EQ(difference({{0, 10}, {20, 30}}, {{5, 25}}), (Spans{{0, 5}, {25, 30}}));
  EXPECT_EQ(difference({{0, 10}, {20, 30}}, {{0, 40}}), Spans());
  EXPECT_EQ(difference({{4, 6}}, {{0, 4}, {6, 9}}), (Spans{{4, 6}}));
  EXPECT_EQ(difference({{4, 6}}, {}), (Spans{{4, 6}}));
}

// Nanosecond by nanosecond.
TimePartition counted(const std::vector<GpuWork>& works) {
  TimePartition times;
  int64_t begin = works[0].start_ns;
  int64_t end = works[0].end_ns;
  for (const GpuWork& work : works) {
    begin = std::min(begin, work.start_ns);
    end = std::max(end, work.end_ns);
  }
  times.window_ns = end - begin;
  for (int64_t t = begin; t < end; ++t) {
    bool runs[3] = {};
    for (const GpuWork& work : works) {
      runs[static_cast<int>(work.kind)] |= work.start_ns <= t && t < work.end_ns;
    }
    times.compute_ns += runs[0];
    times.communication_ns += runs[1];
    times.memory_ns += runs[2];
    times.overlap_ns += runs[0] && runs[1];
    times.exposed_communication_ns += runs[1] && !runs[0];
    times.exposed_memory_ns += runs[2] && !runs[0] && !runs[1];
    times.idle_ns += !runs[0] && !runs[1] && !runs[2];
  }
  times.busy_ns = times.window_ns - times.idle_ns;
  return times;
}

TEST(TimePartition, IsThatOfCountingEveryNanosecond) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<GpuWork> works(1 + random() % 12);
    for (GpuWork& work : works) {
      work.start_ns = static_cast<int64_t>(random() % 200) - 100;
      work.end_ns = work.start_ns + static_cast<int64_t>(random() % 40);
      work.kind = static_cast<WorkKind>(random() % 3);
    }
    const TimePartition got = partition_of(works);
    const TimePartition want = counted(works);
    EXPECT_EQ(got.window_ns, want.window_ns);
    EXPECT_EQ(got.busy_ns, want.busy_ns);
    EXPECT_EQ(got.idle_ns, want.idle_ns);
    EXPECT_EQ(got.compute_ns, want.compute_ns);
    EXPECT_EQ(got.communication_ns, want.communication_ns);
    EXPECT_EQ(got.memory_ns, want.memory_ns);
    EXPECT_EQ(got.overlap_ns, want.overlap_ns);
    EXPECT_EQ(got.exposed_communication_ns, want.exposed_communication_ns);
    EXPECT_EQ(got.exposed_memory_ns, want.exposed_memory_ns);
  }
}

TEST(TimePartition, OverlapIsUndefinedWithoutCommunication) {
  EXPECT_FALSE(partition_of({}).overlap_percent_e4());
  TimePartition times;
  times.communication_ns = 5'798'000;
  times.overlap_ns = 261'000;
  EXPECT_EQ(times.overlap_percent_e4(), 45'016);  // 4.5016 %
  times.overlap_ns = times.communication_ns;
  EXPECT_EQ(times.overlap_percent_e4(), 1'000'000);
}

}  // namespace
}  // namespace traintrace
