// What makes the peak of PyTorch's memory in one of two runs higher than in the other.
#pragma once

#include "analyzer/memory/allocator/allocation_split.h"
#include "analyzer/memory/allocator/peak_places.h"
#include "analyzer/thresholds.h"

namespace traintrace {

struct PeakSide {
  Rank rank;
  int device = -1;
  uint64_t peak = 0;  // bytes in use
  // Of the first allocation that is not the same in both: bytes (0: none) and place.
  uint64_t bytes = 0;
  std::string place;
};

struct MemoryDiff {
  PeakSide a, b;
  bool split = false;  // where they part is known
  uint64_t same = 0;   // allocations of that thread before it
  Surplus surplus;     // of that run
  bool b_is_higher() const { return b.peak > a.peak; }
};

// Less is what two runs of one job differ by.
constexpr bool peaks_differ(uint64_t a, uint64_t b) {
  return (a > b ? a - b : b - a) > (a < b ? a : b) / kPeaksDiffer;
}

// `a` and `b` with their events; peaks are those of the tables.
MemoryDiff memory_diff(const RankAllocator& a, uint64_t peak_a, const RankAllocator& b,
                       uint64_t peak_b);

}  // namespace traintrace
