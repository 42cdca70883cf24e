// Launches of kernels for which there is no row of the GPU: a profiler dropped them, or ended
// first.
#pragma once

#include <cstddef>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct MissingWork {
  size_t launches = 0;  // of kernels and graphs
  size_t missing = 0;   // of these, without work
  size_t at_end = 0;    // of these, after the last launch that has work
  bool matters() const { return missing != 0 && missing * kMissingRows >= launches; }
};

// Copies and sets of no bytes have none, and do not count.
MissingWork missing_work(const Timeline& timeline);

}  // namespace traintrace
