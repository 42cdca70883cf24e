// uses: analyzer
#include "analyzer/text/wall_clock.h"

#include <gtest/gtest.h>

namespace traintrace {
namespace {

constexpr int64_t kStart = 1'700'000'000'250'000'000;  // 2023-11-14 22:13:20.25

TEST(WallClock, MomentsGetTheTimeOfDay) {
  EXPECT_EQ(with_wall_clock("entered #39 at +1.755 s, left at +61.000 s", kStart),
            "entered #39 at +1.755 s (22:13:22.005 UTC), left at +61.000 s (22:14:21.250 UTC)");
  EXPECT_EQ(with_wall_clock("+0.000 s", kStart), "+0.000 s (22:13:20.250 UTC)");
}

TEST(WallClock, WhatIsNoMomentStays) {
  for (const char* const text : {"rank 3 is +41 ms behind", "+1.75 s", "+1.7555 s", "a+1.755 s",
                                 "+1.755 steps", "+ s", "+", "+99999999999999999999.000 s", ""}) {
    EXPECT_EQ(with_wall_clock(text, kStart), text);
  }
}

TEST(WallClock, WithoutAStartOnTheClockNothingIsSaid) {
  EXPECT_EQ(with_wall_clock("at +1.755 s", 0), "at +1.755 s");
  EXPECT_EQ(with_wall_clock("at +1.755 s", 1'700'000'000), "at +1.755 s");
}

TEST(WallClock, Dates) {
  EXPECT_EQ(date_text(kStart), "2023-11-14 22:13:20 UTC");
  EXPECT_EQ(utc_text(kStart), "22:13:20.250 UTC");
}

}  // namespace
}  // namespace traintrace
