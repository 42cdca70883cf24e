// What the counters say of the memory of a rank's GPU.
#pragma once

#include "analyzer/detectors/device/rank_gpus.h"

namespace traintrace {

struct MemoryErrors {  // during the time of its ranks
  int64_t uncorrected = 0;
  int64_t corrected = 0;
  int64_t remapped = 0;                        // rows
  bool is_pending = false, is_failed = false;  // a remapping
};

MemoryErrors memory_errors_of(const RankGpu& gpu);

}  // namespace traintrace
