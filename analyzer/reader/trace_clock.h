// From ticks to ns since the epoch.
#pragma once

#include "analyzer/reader/process_trace.h"
#include "format/trace_format.h"

namespace traintrace {

class TraceClock {
 public:
  // The rate comes from the first and the last anchor; from this machine's clocks if the process
  // was killed before there were two and this is the machine, not restarted since.  `booted`: when
  // the machine was started, by the clock to tell times by; 0: by its own newest anchor.
  explicit TraceClock(const format::FileHeader& header, TimeNs booted = 0);

  // When the machine was started, by the clock that times are told by; 0: not known.
  TimeNs booted() const { return booted_; }

  // 0 stays 0.  Never decreases with ticks, also beyond the anchors, and whatever was done to the
  // system's time: CLOCK_REALTIME counts as it was at the last anchor.
  TimeNs ns(uint64_t ticks) const;

  // From now on all times are so much later.
  void move_by(TimeNs by);

  bool rate_known() const { return rate_known_; }

 private:
  void set_rate(const format::ClockAnchor& from, const format::ClockAnchor& to);

  uint64_t base_ticks_ = 0;
  TimeNs base_ns_ = 0;
  TimeNs booted_ = 0;
  uint64_t ns_per_tick_ = 0;  // times 2^kShift
  bool rate_known_ = true;
};

// By the clock as it stood at that anchor; 0: not recorded.
TimeNs booted_at(const format::ClockAnchor& anchor, uint64_t boottime_ns);

// Whether the trace was written on this machine since it was started last.
bool is_this_boot(const format::FileHeader& header);

}  // namespace traintrace
