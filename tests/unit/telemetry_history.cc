// What telemetry files say over time.
// uses: analyzer
#include <gtest/gtest.h>

#include "analyzer/telemetry/gpu_history.h"

namespace traintrace {
namespace {

constexpr std::string_view kHead = "traintrace-telemetry 1\nfact host node\ndevice 0 uuid=GPU-1\n";

GpuHistory gpu_of(const std::string& lines) {
  std::vector<ReadError> errors;
  TelemetryRecord record = parse_telemetry(std::string(kHead) + lines, "a.log", errors);
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(record.gpus.size(), 1U);
  return record.gpus.empty() ? GpuHistory() : record.gpus.front();
}

TEST(TelemetryHistory, CountersGrowAndAreResetAndGrow) {
  const GpuHistory gpu = gpu_of(
      "read 0 10 energy_mj=100\nread 0 20 energy_mj=150\nread 0 30 energy_mj=5\n"
      "read 0 40 energy_mj=25\n");
  EXPECT_EQ(growth(gpu, GpuReading::kEnergy, 10, 40), 70);
  EXPECT_EQ(growth(gpu, GpuReading::kEnergy, 15, 29),
            50);  // what stood before it counts from there
  EXPECT_EQ(growth(gpu, GpuReading::kEnergy, 21, 29), 0);
  EXPECT_EQ(growth(gpu, GpuReading::kEnergy, 0, 9), std::nullopt);
  EXPECT_EQ(growth(gpu, GpuReading::kPower, 0, 99), std::nullopt);
}

TEST(TelemetryHistory, AReadingHoldsUntilTheNext) {
  const GpuHistory gpu = gpu_of("read 0 10 reasons=4\nread 0 20 reasons=64\nread 0 30\n");
  EXPECT_DOUBLE_EQ(share_of_bits(gpu, 64, 10, 40).value_or(-1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(share_of_bits(gpu, 64, 30, 40).value_or(-1), 1);
  EXPECT_DOUBLE_EQ(share_of_bits(gpu, 64 | 4, 12, 22).value_or(-1), 1);
  EXPECT_DOUBLE_EQ(share_of_bits(gpu, 1, 12, 22).value_or(-1), 0);
  EXPECT_EQ(least(gpu, GpuReading::kReasons, 12, 19), 4);
  EXPECT_EQ(most(gpu, GpuReading::kReasons, 12, 19), 4);
  EXPECT_EQ(most(gpu, GpuReading::kReasons, 12, 20), 64);
  EXPECT_DOUBLE_EQ(mean(gpu, GpuReading::kReasons, 15, 25).value_or(-1), 34);
}

TEST(TelemetryHistory, GrowthBelongsToTheTimeBetweenReadings) {
  const GpuHistory gpu = gpu_of(
      "read 0 10 violation_thermal_ns=0 energy_mj=0\nread 0 20 energy_mj=5\n"
      "read 0 30 violation_thermal_ns=8\n");
  EXPECT_EQ(read_between(gpu, 22, 39), std::optional(std::pair<TimeNs, TimeNs>(20, 30)));
  EXPECT_EQ(read_between(gpu, 5, 29), std::optional(std::pair<TimeNs, TimeNs>(10, 20)));
  EXPECT_EQ(read_between(gpu, 31, 39), std::nullopt);
  EXPECT_EQ(read_between(gpu, 0, 9), std::nullopt);
}

TEST(TelemetryHistory, ATornLineIsLeftOutAndADamagedOneTold) {
  std::vector<ReadError> errors;
  const std::string text = std::string(kHead) + "read 0 1 sm_mhz=5\nread 0 x\nxid 0\nread 0 2 sm_m";
  const TelemetryRecord record = parse_telemetry(text, "a.log", errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].offset, 5U);
  EXPECT_EQ(errors[0].message, "expected read DEVICE TIME READING=NUMBER ..");
  ASSERT_EQ(record.gpus.size(), 1U);
  EXPECT_EQ(record.gpus[0].of(GpuReading::kSmClock).size(), 1U);
  EXPECT_EQ(record.gpus[0].last, 1);
}

TEST(TelemetryHistory, WhatHasNoIdentityIsLeftOut) {
  std::vector<ReadError> errors;
  const TelemetryRecord record = parse_telemetry(
      "traintrace-telemetry 1\nread 0 1 sm_mhz=5\ndevice 1 pci=00000000:1B:00.0\n", "a", errors);
  EXPECT_TRUE(errors.empty());
  ASSERT_EQ(record.gpus.size(), 1U);
  EXPECT_EQ(record.gpus[0].pci, "0000:1b:00.0");
  parse_telemetry("traintrace-telemetry 2\n", "a", errors);
  EXPECT_EQ(errors.size(), 1U);
}

}  // namespace
}  // namespace traintrace
