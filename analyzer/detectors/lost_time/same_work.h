// Stages of a pipeline run the same layers, so the same kernels, in orders of their own: how much
// longer one of them takes for these.
#pragma once

#include <vector>

#include "analyzer/detectors/lost_time/kernel_runs.h"

namespace traintrace {

// All runs of the GPUs of a stage, of each kernel the shortest first.
KernelRuns runs_together(const std::vector<KernelRuns>& all);

struct SameWork {
  size_t kernels = 0;      // that were compared, in half of the window's parts
  bool all_longer = true;  // each of them
  // Of files that may say anything, so not integers, which overflow.
  double ns = 0;         // of all runs of these kernels
  double longer_ns = 0;  // than on the others

  bool is_longer() const;
  double share_of_usual() const;  // that they would take on the others
};

// Of a GPU (or all of one stage) with the other stages, each by runs_together.  The longest run
// belongs to the longest, as backward passes may run the kernels of forward passes; a run counts
// where the others had as many kernels that wait for other ranks beside it, or whatever else, so
// that these are no reason to take longer.
SameWork same_work(const KernelRuns& own, const std::vector<const KernelRuns*>& others,
                   size_t parts);

}  // namespace traintrace
