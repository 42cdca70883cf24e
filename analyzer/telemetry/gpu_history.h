// What telemetry files say of GPUs over time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"
#include "analyzer/telemetry/readings.h"

namespace traintrace {

// A reading is `value` from `time` on, until the next point.
struct TelemetryPoint {
  TimeNs time;
  int64_t value;
};

struct XidEvent {
  TimeNs time;
  int64_t xid;
};

struct GpuHistory {
  std::string host;
  std::string uuid;  // empty: not said
  std::string pci;   // "0000:1b:00.0"; empty: not said
  std::string name;
  TimeNs first = 0, last = 0;  // readings; 0: there are none
  std::array<std::vector<TelemetryPoint>, kReadings> points;
  std::vector<XidEvent> xids;  // by time

  const std::vector<TelemetryPoint>& of(GpuReading reading) const {
    return points[static_cast<size_t>(reading)];
  }
};

struct TelemetryRecord {
  std::vector<GpuHistory> gpus;    // by host, UUID and PCI bus id
  std::vector<std::string> notes;  // "HOST: nvmlX has not returned .."
};

// Whether a file begins as a telemetry file.
bool is_telemetry(const std::string& path);

// Of all these files together; a GPU may be in several.  Of damaged lines the first of each file is
// in `errors`, and the others are used.  A last line without its end is left out.
TelemetryRecord read_telemetry(std::span<const std::string> paths, std::vector<ReadError>& errors);
// The same for the bytes of one file.
TelemetryRecord parse_telemetry(std::string_view text, const std::string& file,
                                std::vector<ReadError>& errors);

// When the GPU was read last before `from` (else first after it), and last before `to`: what a
// counter grew by belongs to the time between these.  Nothing: that is no time.
std::optional<std::pair<TimeNs, TimeNs>> read_between(const GpuHistory& gpu, TimeNs from,
                                                      TimeNs to);

// Of a time span; nothing: nothing is known of the reading then.

// How much a counter has grown: what it lost, when the driver was loaded again, counts for nothing.
std::optional<int64_t> growth(const GpuHistory& gpu, GpuReading reading, TimeNs from, TimeNs to);
std::optional<int64_t> least(const GpuHistory& gpu, GpuReading reading, TimeNs from, TimeNs to);
std::optional<int64_t> most(const GpuHistory& gpu, GpuReading reading, TimeNs from, TimeNs to);
// Average over time.
std::optional<double> mean(const GpuHistory& gpu, GpuReading reading, TimeNs from, TimeNs to);
// Share of the time in which one of the bits was set.
std::optional<double> share_of_bits(const GpuHistory& gpu, int64_t bits, TimeNs from, TimeNs to);

}  // namespace traintrace
