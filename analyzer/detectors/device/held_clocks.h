// GPUs whose clock was held down, and by what.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/detectors/device/rank_gpus.h"

namespace traintrace {

enum class HeldBy : uint8_t {
  kHeat,
  kPowerBrake,
  kLowPower,  // the power cap, at much less than the power limit
  kPowerCap,  // the power cap, at the limit: what large matrix products do
};

struct HeldClock {
  size_t gpu = 0;  // in what gpus_of_ranks found
  HeldBy by = HeldBy::kHeat;
  double share = 0;      // of its ranks' time
  double others = 0;     // median of the other GPUs
  bool counted = false;  // by the GPU's own counter; else by samples of the reasons
};

// Those held down for at least kHeldShare of the time and kHeldMore times as long as the others.
// Idle reasons count for nothing.
std::vector<HeldClock> held_clocks(const std::vector<RankGpu>& gpus);

// GPUs that heat or the power brake holds down for at least kHeldShare, though it is most of them
// alike; empty: no more than half.
std::vector<HeldClock> held_alike(const std::vector<RankGpu>& gpus);

// "thermal slowdown", "the power brake signal"
std::string held_by_text(HeldBy by);

}  // namespace traintrace
