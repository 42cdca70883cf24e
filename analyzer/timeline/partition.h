// How the time of a device divides into work of each kind and none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Over the window from the first start of the device's own work to its last end.  Compute, exposed
// communication, exposed memory and idle add up to the window, to the nanosecond.
struct TimePartition {
  int64_t window_ns = 0;
  int64_t busy_ns = 0;
  int64_t idle_ns = 0;
  int64_t compute_ns = 0;  // these three: while any such work ran, whatever else did
  int64_t communication_ns = 0;
  int64_t memory_ns = 0;
  int64_t exposed_communication_ns = 0;  // communication while nothing was computed
  int64_t exposed_memory_ns = 0;         // copies and sets beside neither of the two
  int64_t overlap_ns = 0;                // communication while something was computed

  // While nothing was computed.
  int64_t lost_ns() const { return idle_ns + exposed_communication_ns + exposed_memory_ns; }
  // Of communication, in 1/10000 percent (rounded half up); none without communication.
  std::optional<int64_t> overlap_percent_e4() const;
};

// `work` of one device.
TimePartition partition_of(std::span<const GpuWork> work);

// The same over a window that may begin before the work in it, or end after it.
TimePartition partition_of(std::span<const GpuWork> work, const Span& window);
// What of `work` lies in that window, cut where it reaches beyond it.
std::vector<GpuWork> work_within(std::span<const GpuWork> work, const Span& window);

// From the first start to the last end; of no work: empty.
Span window_of(std::span<const GpuWork> work);
// Of `spans`, what lies in that window; and while nothing ran.
int64_t window_within(std::span<const GpuWork> work, const Spans& spans);
int64_t idle_within(std::span<const GpuWork> work, const Spans& spans);

}  // namespace traintrace
