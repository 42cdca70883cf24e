// uses: analyzer
#include <gtest/gtest.h>

#include "analyzer/detectors/lost_time/line_habits.h"

namespace traintrace {
namespace {

// One gap after each so many ns, as long as `length_of` says.
template <typename Length>
IdleSite site_of(IdleCause cause, int64_t count, Length length_of) {
  IdleSite site = {cause, "cudaStreamSynchronize", "train.py(3): step"};
  for (int64_t i = 0; i < count; ++i) {
    if (const int64_t ns = length_of(i); ns != 0) {
      site.gaps.push_back({ns, 1000 * (i + 1)});
      site.ns += ns;
    }
  }
  return site;
}

DeviceProfile device_of(std::vector<IdleSite> sites) {
  DeviceProfile device;
  device.by_host = true;
  device.sites = std::move(sites);
  return device;
}

size_t count_pauses(const DeviceProfile& device) {
  const LineHabits habits(device);
  size_t count = 0;
  for (const IdleSite& site : device.sites) {
    for (const IdleGap& gap : site.gaps) {
      count += habits.is_pause(gap) ? 1 : 0;
    }
  }
  return count;
}

TEST(LineHabitsTest, LongNowAndThenIsAPause) {
  const auto each = [](int64_t nth) {
    return device_of({site_of(IdleCause::kSyncInduced, 60,
                              [=](int64_t i) { return i % nth == 0 ? int64_t{100} : 1; })});
  };
  EXPECT_EQ(count_pauses(each(5)), 12U);
  EXPECT_EQ(count_pauses(each(3)), 20U);
  // Each second one, and each, are habits.
  EXPECT_EQ(count_pauses(each(2)), 0U);
  EXPECT_EQ(count_pauses(each(1)), 0U);
}

TEST(LineHabitsTest, FourTimesAsLongIsNone) {
  const auto long_ones = [](int64_t ns) {
    return device_of(
        {site_of(IdleCause::kSyncInduced, 60, [=](int64_t i) { return i % 5 == 0 ? ns : 10; })});
  };
  EXPECT_EQ(count_pauses(long_ones(43)), 0U);
  EXPECT_EQ(count_pauses(long_ones(44)), 12U);
}

TEST(LineHabitsTest, LongForAWhileIsAHabitThen) {
  EXPECT_EQ(count_pauses(device_of(
                {site_of(IdleCause::kSyncInduced, 60,
                         [](int64_t i) { return 20 <= i && i < 45 ? int64_t{100} : 1; })})),
            0U);
}

TEST(LineHabitsTest, AllPartsOfAGapArePauses) {
  IdleSite rest =
      site_of(IdleCause::kHostBound, 60, [](int64_t i) { return i % 5 == 0 ? int64_t{50} : 0; });
  rest.site = "gc.py(1): collect";  // of which it is each time as long
  rest.spent_in_site = true;
  EXPECT_EQ(
      count_pauses(device_of({site_of(IdleCause::kSyncInduced, 60,
                                      [](int64_t i) { return i % 5 == 0 ? int64_t{100} : 1; }),
                              rest})),
      24U);
}

TEST(LineHabitsTest, StepsOrATimelineTellMore) {
  DeviceProfile device = device_of({site_of(
      IdleCause::kSyncInduced, 60, [](int64_t i) { return i % 5 == 0 ? int64_t{100} : 1; })});
  device.steps = 60;
  EXPECT_EQ(count_pauses(device), 0U);
  device.steps = 0;
  device.by_host = false;
  EXPECT_EQ(count_pauses(device), 0U);
}

}  // namespace
}  // namespace traintrace
