// When a fault that lasts is worth a look, while GPUs are being read.
// uses: analyzer
#include <gtest/gtest.h>

#include "analyzer/telemetry/lasting_faults.h"
#include "analyzer/telemetry/nvml_api.h"

namespace traintrace {
namespace {

using Codes = std::vector<std::string>;
constexpr int64_t kSecond = 1'000'000'000;

class TelemetryLasting : public ::testing::Test {
 protected:
  void set(GpuReading reading, int64_t value) { now_[static_cast<size_t>(reading)] = value; }

  // Reads once a second, with `share` of the time held down by heat; all that came due.
  Codes run(int seconds, double share = 0) {
    Codes codes;
    for (int i = 0; i < seconds; ++i) {
      time_ += kSecond;
      held_ += static_cast<int64_t>(share * kSecond);
      set(GpuReading::kViolationThermal, held_);
      faults_.read(0, time_, now_);
      const Codes due = faults_.due(time_);
      codes.insert(codes.end(), due.begin(), due.end());
    }
    return codes;
  }

  LastingFaults faults_;
  LatestReadings now_ = {};
  int64_t time_ = 1000 * kSecond, held_ = 0;
};

TEST_F(TelemetryLasting, HeatIsDueOnceItHasTakenATenthOfAMinute) {
  EXPECT_EQ(run(100), Codes{});
  EXPECT_EQ(run(300, 0.05), Codes{});
  EXPECT_EQ(run(30, 0.5), Codes{"device.throttled"});
}

TEST_F(TelemetryLasting, WhatNobodyWasToldIsDueAgainEverLater) {
  EXPECT_EQ(run(15, 1.0).size(), 1U);
  EXPECT_EQ(run(60, 1.0).size(), 1U);
  EXPECT_EQ(run(100, 1.0).size(), 0U);
  EXPECT_EQ(run(60, 1.0).size(), 1U);
}

TEST_F(TelemetryLasting, WhatWasToldIsSaidAgainOnlyAfterItRecovered) {
  EXPECT_EQ(run(30, 0.5).size(), 1U);
  faults_.told("device.throttled");
  EXPECT_EQ(run(600, 0.5), Codes{});
  EXPECT_EQ(run(180), Codes{});
  EXPECT_EQ(run(30, 0.5), Codes{"device.throttled"});
}

TEST_F(TelemetryLasting, APowerCapIsAFaultOnlyWhereLittleIsDrawn) {
  set(GpuReading::kReasons, nvmlClocksEventReasonSwPowerCap);
  set(GpuReading::kPowerLimit, 700'000);
  set(GpuReading::kPower, 690'000);
  EXPECT_EQ(run(200), Codes{});
  set(GpuReading::kPower, 300'000);
  EXPECT_EQ(run(30), Codes{"device.throttled"});
}

TEST_F(TelemetryLasting, ALinkIsDegradedAfterAMinuteUnlessItSleeps) {
  set(GpuReading::kPcieWidth, 16);
  set(GpuReading::kPcieWidthMost, 16);
  EXPECT_EQ(run(100), Codes{});
  set(GpuReading::kPcieWidth, 8);
  EXPECT_EQ(run(60), Codes{});
  EXPECT_EQ(run(5), Codes{"device.link-degraded"});
  set(GpuReading::kReasons, nvmlClocksEventReasonGpuIdle);
  EXPECT_EQ(run(300), Codes{});
}

TEST_F(TelemetryLasting, ManyReplaysAreALinksFault) {
  set(GpuReading::kPcieReplays, 5000);  // of before
  EXPECT_EQ(run(100), Codes{});
  set(GpuReading::kPcieReplays, 5070);
  EXPECT_EQ(run(100), Codes{});
  set(GpuReading::kPcieReplays, 5090);
  EXPECT_EQ(run(5), Codes{"device.link-degraded"});
}

TEST_F(TelemetryLasting, AClockThatIsSetBackIsNoHeat) {
  EXPECT_EQ(run(100), Codes{});
  time_ -= 500 * kSecond;
  EXPECT_EQ(run(100), Codes{});
  EXPECT_EQ(run(30, 0.5), Codes{"device.throttled"});
}

}  // namespace
}  // namespace traintrace
