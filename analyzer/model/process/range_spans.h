// From when to when ranges of NVTX and of the job's own markers lasted.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct RangeSpan {
  static constexpr TimeNs kOpen = std::numeric_limits<TimeNs>::max();

  TimeNs began;
  TimeNs ended;     // kOpen: as far as is known, it did not end
  uint32_t thread;  // serial of the one that it began on
  uint32_t range;   // key in ProcessTrace::ranges; 0: it has no name
  bool pushed;      // of its thread, and nests; else started, and may end anywhere
};

// In no order.  Those whose beginning was overwritten are not there, unless they are still open.
// `trace` with its events.
std::vector<RangeSpan> range_spans(const ProcessTrace& trace);

}  // namespace traintrace
