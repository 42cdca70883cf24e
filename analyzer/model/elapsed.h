// Traces are untrusted, and so are their times.
#pragma once

#include <limits>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// From `from` to `to`; negative if that is earlier.  The largest value instead of an overflow.
inline TimeNs elapsed(TimeNs from, TimeNs to) {
  TimeNs difference = 0;
  if (!__builtin_sub_overflow(to, from, &difference)) {
    return difference;
  }
  return to > from ? std::numeric_limits<TimeNs>::max() : std::numeric_limits<TimeNs>::min();
}

}  // namespace traintrace
