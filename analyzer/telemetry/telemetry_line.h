// One line of a telemetry file (docs/telemetry.md), as it is written and as it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "analyzer/telemetry/readings.h"

namespace traintrace {

inline constexpr std::string_view kTelemetryMagic = "traintrace-telemetry 1";
inline constexpr int kMostTelemetryDevices = 64;

// Times are ns since the epoch, devices are numbered as in the file.

struct FactLine {  // about the whole file
  std::string key;
  std::string value;
};
struct DeviceLine {
  int device = 0;
  std::string uuid;  // "GPU-1f2e3d4c-.."
  std::string pci;   // "0000:1b:00.0"
  std::string name;
};
struct ReadLine {
  int device = 0;
  int64_t time = 0;
  std::vector<std::pair<GpuReading, int64_t>> values;
};
struct XidLine {
  int device = 0;
  int64_t time = 0;
  int64_t xid = 0;
};
struct NoteLine {
  int64_t time = 0;
  std::string text;
};
struct EndLine {
  int64_t time = 0;
  std::string why;
};
using TelemetryLine = std::variant<FactLine, DeviceLine, ReadLine, XidLine, NoteLine, EndLine>;

// With its newline.
std::string text_of(const TelemetryLine& line);

// `line` has no newline.  Nothing: it is none; `expected` says what should be there.  Keys of
// readings that are not known are left out.
std::optional<TelemetryLine> parse_telemetry_line(std::string_view line, std::string& expected);

// "0000:1b:00.0", however a tool writes it ("00000000:1B:00.0"); empty: it is no PCI bus id.
std::string plain_pci(std::string_view text);

}  // namespace traintrace
