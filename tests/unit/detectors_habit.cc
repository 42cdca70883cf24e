// uses: analyzer
#include <gtest/gtest.h>

#include "analyzer/detectors/lost_time/habit.h"

namespace traintrace {
namespace {

DeviceProfile device_of(size_t steps) {
  DeviceProfile device;
  device.steps = steps;
  for (size_t i = 0; i < steps; ++i) {
    device.step_starts.push_back(static_cast<int64_t>(i) * 1000);
  }
  device.stretches = device.step_starts;
  return device;
}

TEST(HabitTest, IsCountedBySteps) {
  const DeviceProfile device = device_of(10);
  std::vector<IdleGap> cluster;
  for (int64_t i = 0; i < 48; ++i) {
    cluster.push_back({5, 100 + 10 * i});  // all in step 0
  }
  EXPECT_EQ(Habit(device, cluster).sum_ns(), 0);
  std::vector<IdleGap> habit;
  for (int64_t step = 0; step < 5; ++step) {
    habit.push_back({5, 1000 * step + 100});
  }
  EXPECT_EQ(Habit(device, habit).sum_ns(), 25);
  habit.pop_back();
  EXPECT_EQ(Habit(device, habit).sum_ns(), 0);
}

TEST(HabitTest, IsInHalfOfAnOddNumberOfSteps) {
  for (const size_t steps : {5, 7, 9}) {
    const DeviceProfile device = device_of(steps);
    std::vector<IdleGap> gaps;
    for (size_t step = 0; step < steps / 2; ++step) {
      gaps.push_back({5, 1000 * static_cast<int64_t>(step) + 100});
    }
    EXPECT_EQ(Habit(device, gaps).sum_ns(), 0) << steps;
    gaps.push_back({5, 1000 * static_cast<int64_t>(steps / 2) + 100});
    EXPECT_EQ(Habit(device, gaps).sum_ns(), 5 * static_cast<int64_t>(gaps.size())) << steps;
  }
}

TEST(HabitTest, LeavesOutAStepThatLosesMuchMore) {
  const DeviceProfile device = device_of(10);
  std::vector<IdleGap> gaps;
  for (int64_t step = 0; step < 10; ++step) {
    gaps.push_back({5, 1000 * step + 100});
  }
  for (int64_t i = 0; i < 40; ++i) {
    gaps.push_back({6, 3200 + 10 * i});  // each is as short as those of other steps
  }
  const Habit habit(device, gaps);
  EXPECT_EQ(habit.sum_ns(), 50);
  EXPECT_TRUE(habit.has({5, 3100}));
  EXPECT_FALSE(habit.has({6, 3200}));
}

TEST(HabitTest, LeavesOutWhatIsMuchLonger) {
  const DeviceProfile device = device_of(10);
  std::vector<IdleGap> gaps;
  for (int64_t step = 0; step < 10; ++step) {
    gaps.push_back({5, 1000 * step + 100});
  }
  gaps.push_back({21, 3200});
  EXPECT_EQ(Habit(device, gaps).sum_ns(), 50);
  gaps.back().ns = 15;  // 20 of this step, four times the others
  EXPECT_EQ(Habit(device, gaps).sum_ns(), 65);
}

}  // namespace
}  // namespace traintrace
