#include "analyzer/thresholds.h"

#include <fmt/format.h>

namespace traintrace {
namespace {

constexpr Threshold kThresholds[] = {
#define TT_THRESHOLD(area, name, type, value, unit, why) \
  {#area, #name, static_cast<double>(value), ThresholdUnit::k##unit, why},
#include "analyzer/thresholds.def"
};

struct Scale {
  double size;
  std::string_view unit;
};

std::string scaled(double value, std::span<const Scale> scales) {
  for (const Scale& scale : scales) {
    if (value >= scale.size) {
      return fmt::format("{:g} {}", value / scale.size, scale.unit);
    }
  }
  return fmt::format("{:g} {}", value / scales.back().size, scales.back().unit);
}

}  // namespace

std::span<const Threshold> thresholds() {
  return kThresholds;
}

std::string name_of(const Threshold& threshold) {
  std::string name;
  for (const char c : threshold.identifier.substr(1)) {
    const bool upper = c >= 'A' && c <= 'Z';
    name += upper && !name.empty() ? "-" : "";
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name;
}

std::string value_text(const Threshold& threshold) {
  constexpr Scale kTimes[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  constexpr Scale kSizes[] = {{0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "bytes"}};
  switch (threshold.unit) {
    case ThresholdUnit::kNs:
      return scaled(threshold.value, kTimes);
    case ThresholdUnit::kBytes:
      return scaled(threshold.value, kSizes);
    case ThresholdUnit::kShare:
      return fmt::format("{:g} %", 100 * threshold.value);
    case ThresholdUnit::kOneIn:
      return fmt::format("{:g} %", 100 / threshold.value);
    case ThresholdUnit::kPercent:
      return fmt::format("{:g} %", threshold.value);
    case ThresholdUnit::kTimes:
      return fmt::format("{:g} times", threshold.value);
    case ThresholdUnit::kCount:
    case ThresholdUnit::kCost:
      break;
  }
  return fmt::format("{:g}", threshold.value);
}

std::string_view unit_name(const Threshold& threshold) {
  constexpr std::string_view kNames[] = {"ns",      "bytes", "share", "one in",
                                         "percent", "times", "count", "cost"};
  return kNames[static_cast<size_t>(threshold.unit)];
}

}  // namespace traintrace
