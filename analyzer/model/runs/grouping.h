// Which traces belong to one run.  A folder may hold several runs and elastic restarts, whose
// launchers often say the same about all of them (torchrun: run id "none", port 29500).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct RunGroup {
  std::vector<size_t> ranks;      // indices of processes that are ranks, by host, pid and start
  std::vector<size_t> followers;  // children of those, and what they were before an exec
  TimeNs start = 0;
  TimeNs end = 0;
};

// By start.  The same whatever the order of `traces`.
std::vector<RunGroup> group_runs(std::span<const ProcessTrace> traces);

}  // namespace traintrace
