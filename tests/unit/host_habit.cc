// uses: analyzer
// Which hosts are late as a habit, by their calls alone.
#include <gtest/gtest.h>

#include <functional>

#include "analyzer/detectors/lost_time/host_habit.h"

namespace traintrace {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr size_t kRanks = 3;
constexpr size_t kBuckets = 3;

// By how many ms a rank's host is late before the backward pass of a step.
using Late = std::function<int64_t(size_t rank, size_t step)>;

// Steps of 10 ms with three buckets each, the second and third while the first is under way.
Arrivals buckets(size_t steps, const Late& late) {
  Arrivals arrivals;
  arrivals.by_host = true;
  arrivals.members = {0, 1, 2};
  arrivals.entered_ns = {0, 0, 0};
  int64_t begin_ns = 0;  // of the step: all have waited for the last bucket
  for (size_t step = 0; step < steps; ++step) {
    int64_t last_ns = 0;
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      Arrival arrival;
      for (size_t rank = 0; rank < kRanks; ++rank) {
        const int64_t own_ns = bucket == 0 ? (10 + late(rank, step)) * kMs : 0;
        const int64_t at_ns =
            begin_ns + (10 + late(rank, step)) * kMs + static_cast<int64_t>(bucket) * kMs / 10;
        arrival.start_ns.push_back(at_ns);
        arrival.launch_ns.push_back(at_ns);
        arrival.launched.push_back(true);
        arrival.end_ns.push_back(at_ns + kMs);
        // It waited for the last bucket of the step before, so that only its own doing is left.
        const Arrival* const before = arrivals.list.empty() ? nullptr : &arrivals.list.back();
        arrival.blocked_ns.push_back(
            bucket == 0 && before != nullptr ? begin_ns - before->launch_ns[rank] : 0);
        arrival.most_own_ns.push_back(own_ns);
        last_ns = std::max(last_ns, at_ns);
      }
      arrivals.list.push_back(arrival);
    }
    begin_ns = last_ns + kMs;
  }
  return arrivals;
}

std::vector<size_t> late_by_habit(const Arrivals& arrivals) {
  std::vector<size_t> late;
  for (const OwnLateness& each : own_lateness(arrivals)) {
    if (is_host_habit(arrivals, each)) {
      late.push_back(each.member);
    }
  }
  return late;
}

// Late to the first bucket of each step, which is a third of all collectives.
TEST(HostHabit, StepsCountNotBuckets) {
  const Arrivals arrivals =
      buckets(30, [](size_t rank, size_t) { return rank == 1 ? int64_t{50} : 0; });
  EXPECT_EQ(collectives_after_pauses(arrivals).size(), 29U);
  EXPECT_EQ(late_by_habit(arrivals), (std::vector<size_t>{1}));
}

TEST(HostHabit, FewStepsAreNone) {
  EXPECT_TRUE(
      late_by_habit(buckets(15, [](size_t rank, size_t) { return rank == 1 ? 50 : 0; })).empty());
}

TEST(HostHabit, RanksInTurn) {
  EXPECT_TRUE(late_by_habit(buckets(60, [](size_t rank, size_t step) {
                return rank == step % kRanks ? 50 : 0;
              })).empty());
}

// Rank 0 evaluates now and then; and is a little later than the others in each step, too.
TEST(HostHabit, AnEvaluationNowAndThen) {
  for (const int64_t usual : {0, 1}) {
    EXPECT_TRUE(late_by_habit(buckets(60,
                                      [&](size_t rank, size_t step) {
                                        return rank != 0 ? 0 : step % 15 == 14 ? 500 : usual;
                                      }))
                    .empty())
        << usual;
  }
}

TEST(HostHabit, OnlyInTheFirstHalf) {
  EXPECT_TRUE(late_by_habit(buckets(60, [](size_t rank, size_t step) {
                return rank == 1 && step < 30 ? 50 : rank == 1 ? 1 : 0;
              })).empty());
}

}  // namespace
}  // namespace traintrace
