// How much of what a GPU can compute a job uses (MFU), by the products of matrices in a profile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct Utilisation {
  // Of all products of operators; none: the shape of one is not known, or there is none at all.
  std::optional<int64_t> gemm_flops;
  // The time that they would take at the GPU's peak for their type, of the window, in 1/10000
  // percent.  None: the GPU's peak is not known, or more than a fifth of the time in kernels that
  // multiply matrices goes into such as are not counted: convolutions, attention, graphs.
  std::optional<int64_t> mfu_percent_e4;
};

// `work` of that device of the timeline, which began in a window of that length.
Utilisation utilisation_of(const Timeline& timeline, int32_t device, std::span<const GpuWork> work,
                           int64_t window_ns);

}  // namespace traintrace
