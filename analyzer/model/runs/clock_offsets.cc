#include "analyzer/model/runs/clock_offsets.h"

#include <algorithm>
#include <utility>

#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// None: they contradict each other.
std::optional<ClockBounds> common(const ClockBounds& a, const ClockBounds& b) {
  const ClockBounds both{std::max(a.low, b.low), std::min(a.high, b.high)};
  return both.low <= both.high ? std::optional(both) : std::nullopt;
}

}  // namespace

bool ClockOffsets::learn(const ClockSides& sides) {
  const std::optional<ClockBounds> moment = moment_of(sides);
  if (!moment) {
    return false;
  }
  latest_ = std::max(latest_, moment->low);
  const WideNs drift = (latest_ - moment->low) * kMostDriftPpb / 1'000'000'000;
  bool news = false;
  for (const auto& [clock, side] : sides) {
    if (side.over != 0 && !is_first(clock)) {
      news = learn(clock, {side.entered - moment->high - drift, side.over - moment->low + drift}) ||
             news;
    }
  }
  return news;
}

bool ClockOffsets::learn(size_t clock, const ClockBounds& own) {
  std::optional<ClockBounds>& ahead = ahead_[clock];
  const auto both = ahead ? common(*ahead, own) : own;
  if (!both) {
    const WideNs apart = std::max(ahead->low - own.high, own.low - ahead->high);
    // Clocks are set now and then: what is older than many that agree is of before.
    if (apart > kClockSkewTolerated && agreed_[clock] < kClockCollectives) {
      contradicted_.insert(clock);
    }
    return false;
  }
  ++agreed_[clock];
  const bool news = !ahead || both->low > ahead->low || both->high < ahead->high;
  ahead = both;
  return news;
}

bool ClockOffsets::is_first(size_t clock) const {
  return ahead_[clock] && ahead_[clock]->low == 0 && ahead_[clock]->high == 0;
}

// When all had entered it, by the first clock.
std::optional<ClockBounds> ClockOffsets::moment_of(const ClockSides& sides) const {
  std::optional<ClockBounds> moment;
  for (const auto& [clock, side] : sides) {
    if (ahead_[clock] && side.over != 0 && side.entered <= side.over) {
      const ClockBounds own{side.entered - ahead_[clock]->high, side.over - ahead_[clock]->low};
      const auto both = moment ? common(*moment, own) : own;
      moment = both ? both : moment;
    }
  }
  return moment;
}

// Each host that one of them reaches is a step, and few runs need more than one.
ClockOffsets offsets_from(size_t first, size_t clocks, const std::vector<ClockSides>& moments) {
  constexpr int kMostSteps = 8;
  ClockOffsets offsets(clocks);
  offsets.set_first(first);
  bool news = true;
  for (int step = 0; news && step < kMostSteps; ++step) {
    news = false;
    for (const ClockSides& sides : moments) {
      news = offsets.learn(sides) || news;
    }
  }
  return offsets;
}

WideNs likely_offset(const ClockBounds& ahead) {
  const WideNs nearest = std::clamp<WideNs>(0, ahead.low, ahead.high);
  const WideNs size = nearest < 0 ? -nearest : nearest;
  return size <= kClockSkewTolerated ? nearest : ahead.low + (ahead.high - ahead.low) / 2;
}

size_t median_clock(size_t clocks, const ClockOffsets& offsets) {
  std::vector<std::pair<WideNs, size_t>> order;
  for (size_t clock = 0; clock < clocks; ++clock) {
    if (offsets.of(clock)) {
      order.emplace_back(likely_offset(*offsets.of(clock)), clock);
    }
  }
  std::sort(order.begin(), order.end());
  return order[(order.size() - 1) / 2].second;
}

}  // namespace traintrace
