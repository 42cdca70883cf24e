#include "analyzer/telemetry/lasting_faults.h"

#include <algorithm>

#include "analyzer/telemetry/nvml_api.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr std::string_view kClockCode = "device.throttled";
constexpr std::string_view kLinkCode = "device.link-degraded";

int64_t value_of(const LatestReadings& readings, GpuReading reading) {
  return readings[static_cast<size_t>(reading)].value_or(0);
}

bool is_known(const LatestReadings& readings, GpuReading reading) {
  return readings[static_cast<size_t>(reading)].has_value();
}

// A power cap is a fault where the GPU draws little, else it is ordinary.
bool is_held_by_a_fault(const LatestReadings& readings) {
  const auto reasons = static_cast<uint64_t>(value_of(readings, GpuReading::kReasons));
  constexpr auto kFaults = nvmlClocksEventReasonSwThermalSlowdown |
                           nvmlClocksThrottleReasonHwThermalSlowdown |
                           nvmlClocksThrottleReasonHwPowerBrakeSlowdown;
  const int64_t limit = value_of(readings, GpuReading::kPowerLimit);
  const bool draws_little = limit > 0 && is_known(readings, GpuReading::kPower) &&
                            static_cast<double>(value_of(readings, GpuReading::kPower)) <
                                kLowPower * static_cast<double>(limit);
  return (reasons & kFaults) != 0 ||
         ((reasons & nvmlClocksEventReasonSwPowerCap) != 0 && draws_little);
}

// How long the clock was held down between two readings.
int64_t held_between(const LatestReadings& before, const LatestReadings& now, int64_t ns) {
  const int64_t by_heat = value_of(now, GpuReading::kViolationThermal) -
                          value_of(before, GpuReading::kViolationThermal);
  const bool is_counted = is_known(before, GpuReading::kViolationThermal);
  const int64_t by_samples = is_held_by_a_fault(before) ? ns : 0;
  return std::clamp<int64_t>(std::max(is_counted ? by_heat : 0, by_samples), 0, ns);
}

}  // namespace

void LastingFaults::Fault::set(bool now, int64_t time) {
  if (now && !lasts) {
    next = time;
    pause = kRecentNs;
  }
  is_told = now && lasts && is_told;
  lasts = now;
}

// It lasts from when it has held the clock for its share of a window, to the end of one in which it
// has not.
void LastingFaults::read_clock(Device& device, int64_t time, const LatestReadings& latest) {
  // Of two threads that read the same device the one may be a little late; a clock that was set
  // back is another matter.
  if (device.window == 0 || time < device.time - kRecentNs) {
    device.window = time;
    device.held_ns = 0;
    return;
  }
  if (time <= device.time) {
    return;
  }
  device.held_ns += held_between(device.latest, latest, time - device.time);
  const bool is_much =
      static_cast<double>(device.held_ns) >= kHeldShare * static_cast<double>(kRecentNs);
  const bool is_over = time - device.window >= kRecentNs;
  if (is_much || is_over) {
    device.clock.set(is_much, time);
  }
  if (is_over) {
    device.window = time;
    device.held_ns = 0;
  }
}

void LastingFaults::read_link(Device& device, int64_t time, const LatestReadings& latest) {
  const auto idle =
      static_cast<uint64_t>(value_of(latest, GpuReading::kReasons)) & nvmlClocksEventReasonGpuIdle;
  const bool is_narrow =
      idle == 0 && is_known(latest, GpuReading::kPcieWidth) &&
      value_of(latest, GpuReading::kPcieWidth) < value_of(latest, GpuReading::kPcieWidthMost);
  device.narrow_since = !is_narrow ? 0 : device.narrow_since == 0 ? time : device.narrow_since;
  const auto grown_by = [&](GpuReading reading, int64_t& first) {
    first = first < 0 && is_known(latest, reading) ? value_of(latest, reading) : first;
    return first < 0 ? 0 : value_of(latest, reading) - first;
  };
  const bool resends = grown_by(GpuReading::kPcieReplays, device.replays) >= kPcieReplaysMost;
  const bool recovers = grown_by(GpuReading::kNvlinkRecoveries, device.recoveries) > 0;
  const bool stays_narrow = device.narrow_since != 0 && time - device.narrow_since >= kRecentNs;
  device.link.set(resends || recovers || stays_narrow, time);
}

void LastingFaults::read(int device, int64_t time, const LatestReadings& latest) {
  Device& known = devices_[device];
  const bool is_late = time <= known.time && time >= known.time - kRecentNs;
  read_clock(known, time, latest);
  read_link(known, time, latest);
  if (!is_late) {
    known.latest = latest;
    known.time = time;
  }
}

std::vector<std::string> LastingFaults::due(int64_t time) {
  std::vector<std::string> codes;
  const auto take = [&](Fault& fault, std::string_view code) {
    if (!fault.lasts || fault.is_told || time < fault.next) {
      return;
    }
    fault.next = time + fault.pause;
    fault.pause *= 2;
    if (std::find(codes.begin(), codes.end(), code) == codes.end()) {
      codes.emplace_back(code);
    }
  };
  for (auto& [number, device] : devices_) {
    take(device.clock, kClockCode);
    take(device.link, kLinkCode);
  }
  return codes;
}

void LastingFaults::told(const std::string& code) {
  for (auto& [number, device] : devices_) {
    Fault& fault = code == kClockCode ? device.clock : device.link;
    fault.is_told = fault.lasts;
  }
}

}  // namespace traintrace
