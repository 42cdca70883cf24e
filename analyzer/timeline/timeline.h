// What a GPU did and when, whoever recorded it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace traintrace {

enum class WorkKind : uint8_t { kCompute, kCommunication, kMemory };

// One kernel, copy or set.  Times in ns of the trace's own clock, end not included.
struct GpuWork {
  int64_t start_ns;
  int64_t end_ns;
  uint64_t correlation;  // joins it with the call that launched it; 0: not known
  uint32_t name;         // index in Timeline::names
  int32_t stream;        // -1: not known
  int32_t device;
  WorkKind kind;
};
static_assert(sizeof(GpuWork) <= 40);

// Of one process.
struct Timeline {
  std::string source;       // file
  std::optional<int> rank;  // global
  std::optional<int> world_size;
  int64_t base_ns = 0;        // time 0 of the trace in ns since the epoch
  std::vector<GpuWork> work;  // in the order of their starts
  std::vector<std::string> names;
};

}  // namespace traintrace
