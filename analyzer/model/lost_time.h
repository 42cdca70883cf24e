// How much of a GPU's time was lost, and how much of that the findings of a report name.
#pragma once

#include <cstdint>

#include "analyzer/model/ids.h"

namespace traintrace {

// lost_ns = idle time plus communication that nothing was computed beside.
struct LostTime {
  Rank rank;
  int device = 0;
  int64_t window_ns = 0;
  int64_t lost_ns = 0;
  int64_t named_ns = 0;
  int64_t unattributed_ns = 0;  // the rest
};

}  // namespace traintrace
