// Sizes of files as people write them: "356 MB", "4.1 KB", "17 bytes".
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace traintrace {

inline std::string file_size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  constexpr double kStep = 1000;
  if (bytes < static_cast<uint64_t>(kStep)) {
    return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  }
  auto value = static_cast<double>(bytes) / kStep;
  size_t unit = 0;
  for (; value >= kStep && unit + 1 < std::size(kUnits); ++unit) {
    value /= kStep;
  }
  constexpr double kFewDigits = 10;
  return value < kFewDigits ? fmt::format("{:.1f} {}", value, kUnits[unit])
                            : fmt::format("{:.0f} {}", value, kUnits[unit]);
}

}  // namespace traintrace
