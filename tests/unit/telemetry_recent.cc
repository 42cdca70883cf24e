// What goes on while a job runs, and is little of all its time.
// uses: analyzer
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;
constexpr TimeNs kBegun = 1000 * kSecond;
constexpr TimeNs kNow = kBegun + 3600 * kSecond;  // the job has run for an hour

// Two ranks, each with a GPU.
Run run_of_two(bool running) {
  Run run;
  for (int number = 0; number < 2; ++number) {
    ProcessTrace& trace = run.processes.emplace_back();
    trace.host = "a";
    trace.armed = kBegun;
    trace.last_alive = kNow;
    trace.running_now = running;
    trace.facts["gpu-0-uuid"] = "GPU-" + std::to_string(number);
    trace.communicators.emplace_back().device = 0;
    RankState& state = run.ranks.emplace_back();
    state.rank = Rank{number};
    state.process = static_cast<size_t>(number);
  }
  return run;
}

// Readings of both each 10 s: `of(number, seconds since the job began)`.
template <class Readings>
TelemetryRecord telemetry_with(Readings of) {
  std::string text =
      "traintrace-telemetry 1\nfact host a\ndevice 0 uuid=GPU-0\ndevice 1 uuid=GPU-1\n";
  for (TimeNs time = kBegun; time <= kNow; time += 10 * kSecond) {
    for (int number = 0; number < 2; ++number) {
      text += "read " + std::to_string(number) + " " + std::to_string(time) + " " +
              of(number, (time - kBegun) / kSecond) + "\n";
    }
  }
  std::vector<ReadError> errors;
  return parse_telemetry(text, "a.log", errors);
}

std::vector<std::string> titles(bool running, const TelemetryRecord& telemetry) {
  std::vector<Finding> findings;
  add_telemetry(run_of_two(running), telemetry, findings);
  std::vector<std::string> titles;
  titles.reserve(findings.size());
  for (const Finding& finding : findings) {
    titles.push_back(std::string(finding.code) + " " + finding.title);
  }
  return titles;
}

using Titles = std::vector<std::string>;

// Rank 1's clock is held down half of the time from `from` to `to`.
TelemetryRecord held(int64_t from, int64_t to) {
  return telemetry_with([=](int number, int64_t seconds) {
    const int64_t ns =
        number == 0 ? 0 : std::clamp<int64_t>(seconds - from, 0, to - from) * kSecond / 2;
    return "violation_thermal_ns=" + std::to_string(ns);
  });
}

TEST(TelemetryRecent, AClockThatIsHeldDownSinceAMinute) {
  EXPECT_EQ(titles(true, held(3530, 3600)),
            (Titles{"device.throttled the clock of the GPU of rank 1 was held down by thermal "
                    "slowdown for 50 % of the last 60 s"}));
  EXPECT_EQ(titles(false, held(3530, 3600)), Titles{});  // all of a job that is over counts
}

TEST(TelemetryRecent, AClockThatHasRecovered) {
  EXPECT_EQ(titles(true, held(3400, 3530)), Titles{});
}

TEST(TelemetryRecent, WhatAllOfTheTimeSaysIsToldOnce) {
  const Titles all = titles(true, held(0, 3600));
  EXPECT_EQ(all, (Titles{"device.throttled the clock of the GPU of rank 1 was held down by thermal "
                         "slowdown for 50 % of the time"}));
}

// Rank 1's link has half of its lanes from `from` on.
TelemetryRecord narrow(int64_t from, const std::string& reasons) {
  return telemetry_with([=](int number, int64_t seconds) {
    const int lanes = number == 1 && seconds >= from ? 8 : 16;
    return "pcie_width=" + std::to_string(lanes) + " pcie_width_most=16 reasons=" + reasons;
  });
}

TEST(TelemetryRecent, ALinkThatHasLostLanes) {
  EXPECT_EQ(titles(true, narrow(3000, "0")),
            (Titles{"device.link-degraded a link of the GPU of rank 1 is degraded: its PCIe link "
                    "has 8 of 16 lanes"}));
  EXPECT_EQ(titles(true, narrow(3000, "1")), Titles{});  // it sleeps
  EXPECT_EQ(titles(true, narrow(3580, "0")), Titles{});  // not for a minute yet
}

}  // namespace
}  // namespace traintrace
