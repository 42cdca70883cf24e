// Numbers that decide a verdict, once: thresholds.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace traintrace {

#define TT_THRESHOLD(area, name, type, value, unit, why) inline constexpr type name = value;
#include "analyzer/thresholds.def"

enum class ThresholdUnit : uint8_t { kNs, kBytes, kShare, kOneIn, kPercent, kTimes, kCount, kCost };

// As `traintrace findings --thresholds` prints it.
struct Threshold {
  std::string_view area;
  std::string_view identifier;  // kDeadAfter
  double value = 0;             // as unit_name says
  ThresholdUnit unit = ThresholdUnit::kCount;
  std::string_view why;
};

std::span<const Threshold> thresholds();
std::string name_of(const Threshold& threshold);         // dead-after
std::string value_text(const Threshold& threshold);      // 3 s
std::string_view unit_name(const Threshold& threshold);  // of `value`: ns

}  // namespace traintrace
