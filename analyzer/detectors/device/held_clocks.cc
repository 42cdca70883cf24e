#include "analyzer/detectors/device/held_clocks.h"

#include <algorithm>

#include "analyzer/telemetry/nvml_api.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr auto kHeatBits = static_cast<int64_t>(nvmlClocksEventReasonSwThermalSlowdown |
                                                nvmlClocksThrottleReasonHwThermalSlowdown);
constexpr auto kBrakeBits = static_cast<int64_t>(nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
constexpr auto kCapBits = static_cast<int64_t>(nvmlClocksEventReasonSwPowerCap);

struct Share {
  std::optional<double> of_time;
  bool counted = false;
};

// By the counter, which misses nothing; else by the reasons, which are samples.
Share share_held(const RankGpu& gpu, GpuReading counter, int64_t bits) {
  const GpuHistory& history = *gpu.history;
  const auto read = read_between(history, gpu.from, gpu.to);
  if (!read) {
    return {};
  }
  const auto [from, to] = *read;
  if (const auto held = growth(history, counter, from, to)) {
    return {std::min(1.0, static_cast<double>(*held) / static_cast<double>(to - from)), true};
  }
  return {share_of_bits(history, bits, from, to), false};
}

// What counts as power: the brake where it is what the reasons name.
HeldBy power_reason(const RankGpu& gpu) {
  const GpuHistory& history = *gpu.history;
  const double brake = share_of_bits(history, kBrakeBits, gpu.from, gpu.to).value_or(0);
  const double cap = share_of_bits(history, kCapBits, gpu.from, gpu.to).value_or(0);
  if (brake > 0 && brake >= cap) {
    return HeldBy::kPowerBrake;
  }
  const auto power = mean(history, GpuReading::kPower, gpu.from, gpu.to);
  const auto limit = most(history, GpuReading::kPowerLimit, gpu.from, gpu.to + kFaultsAfterNs);
  const bool is_low = power && limit && *power < kLowPower * static_cast<double>(*limit);
  return is_low ? HeldBy::kLowPower : HeldBy::kPowerCap;
}

void add_held(const std::vector<RankGpu>& gpus, GpuReading counter, int64_t bits,
              std::vector<HeldClock>& held) {
  std::vector<Share> shares;
  std::vector<std::optional<double>> values;
  for (const RankGpu& gpu : gpus) {
    shares.push_back(share_held(gpu, counter, bits));
    values.push_back(shares.back().of_time);
  }
  for (size_t i = 0; i < gpus.size(); ++i) {
    const double share = values[i].value_or(0);
    const double others = median_of_others(values, i);
    if (share >= kHeldShare && share >= kHeldMore * others) {
      const HeldBy by =
          counter == GpuReading::kViolationThermal ? HeldBy::kHeat : power_reason(gpus[i]);
      held.push_back({i, by, share, others, shares[i].counted});
    }
  }
}

}  // namespace

std::vector<HeldClock> held_clocks(const std::vector<RankGpu>& gpus) {
  std::vector<HeldClock> held;
  add_held(gpus, GpuReading::kViolationThermal, kHeatBits, held);
  add_held(gpus, GpuReading::kViolationPower, kBrakeBits | kCapBits, held);
  return held;
}

std::vector<HeldClock> held_alike(const std::vector<RankGpu>& gpus) {
  std::vector<HeldClock> held;
  for (const auto& [counter, bits, by] :
       {std::tuple(GpuReading::kViolationThermal, kHeatBits, HeldBy::kHeat),
        std::tuple(GpuReading::kViolationPower, kBrakeBits, HeldBy::kPowerBrake)}) {
    held.clear();
    for (size_t i = 0; i < gpus.size(); ++i) {
      const Share share = share_held(gpus[i], counter, bits);
      const bool is_meant = by == HeldBy::kHeat || power_reason(gpus[i]) == by;
      if (share.of_time.value_or(0) >= kHeldShare && is_meant) {
        held.push_back({i, by, *share.of_time, 0, share.counted});
      }
    }
    if (2 * held.size() > gpus.size() && held.size() > 1) {
      return held;
    }
  }
  return {};
}

std::string held_by_text(HeldBy by) {
  switch (by) {
    case HeldBy::kHeat:
      return "thermal slowdown";
    case HeldBy::kPowerBrake:
      return "the power brake signal";
    case HeldBy::kLowPower:
      return "a power cap far below its limit";
    case HeldBy::kPowerCap:
      break;
  }
  return "its power limit";
}

}  // namespace traintrace
