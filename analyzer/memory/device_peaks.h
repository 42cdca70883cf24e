// The most memory that a process had in use, and held, on each device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct DevicePeak {
  int device = -1;
  // Where PyTorch's allocator hands it out: its own totals.  Else of all calls, from the return of
  // the one that took the memory to the one that gave it back.  None: not known.
  std::optional<uint64_t> allocated, reserved;
};

struct DevicePeaks {
  std::vector<DevicePeak> devices;  // by device
  std::string unknown;              // why they are not known; empty: they are
};

// The tables do not say them.
bool peaks_need_events(const ProcessTrace& trace);
DevicePeaks device_peaks(const ProcessTrace& trace);

}  // namespace traintrace
