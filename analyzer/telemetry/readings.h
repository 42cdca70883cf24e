// What is read of a GPU: readings.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace traintrace {

enum class GpuReading : uint8_t {
#define TT_READING(name, key, kind, exported, scale, meaning) k##name,
#include "analyzer/telemetry/readings.def"
  kCount
};
inline constexpr size_t kReadings = static_cast<size_t>(GpuReading::kCount);

enum class ReadingKind : uint8_t { Counter, Gauge };

struct ReadingSpec {
  std::string_view key;
  ReadingKind kind;
  std::string_view exported;  // behind "traintrace_gpu_", for Prometheus
  double scale;               // of a value, for that
  std::string_view meaning;
};
inline constexpr ReadingSpec kReadingSpecs[] = {
#define TT_READING(name, key, kind, exported, scale, meaning) \
  {key, ReadingKind::kind, exported, scale, meaning},
#include "analyzer/telemetry/readings.def"
};
constexpr const ReadingSpec& spec_of(GpuReading reading) {
  return kReadingSpecs[static_cast<size_t>(reading)];
}

inline std::optional<GpuReading> reading_of(std::string_view key) {
  for (size_t i = 0; i < kReadings; ++i) {
    if (kReadingSpecs[i].key == key) {
      return static_cast<GpuReading>(i);
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
