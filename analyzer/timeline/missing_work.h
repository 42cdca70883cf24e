// Launches of kernels for which there is no row of the GPU: a profiler dropped them, or ended
// first.
#pragma once

#include <vector>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Whether so much of a recording is missing that it proves nothing.
inline bool matters(const MissingWork& work) {
  return work.missing != 0 && work.missing * kMissingRows >= work.launches;
}

// A call that launches a kernel or a graph, with those within it, of which one has the work.
struct KernelLaunch {
  int64_t start_ns, end_ns;
  bool has_work;
};
// In the order of their starts, without what is captured into a graph.
std::vector<KernelLaunch> kernel_launches(const Timeline& timeline);

// Copies and sets of no bytes have none, and do not count.  By the host's calls alone nothing is
// known to be missing.
MissingWork missing_work(const Timeline& timeline);

}  // namespace traintrace
