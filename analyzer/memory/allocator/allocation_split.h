// Where what two ranks, or two runs, allocate from PyTorch's allocator parts.
#pragma once

#include <optional>

#include "analyzer/memory/allocator/allocator_events.h"
#include "analyzer/memory/allocator/same_place.h"
#include "analyzer/model/ids.h"

namespace traintrace {

struct RankAllocator {
  const ProcessTrace* trace = nullptr;  // whole
  Rank rank;
  int device = -1;
};

struct AllocationSplit {
  uint64_t same = 0;  // allocations of that thread before it, which are the same on both
  // The first that is not.
  TimeNs time = 0;
  uint32_t stack = 0;
  uint64_t bytes = 0;
  // What the other did instead; 0 bytes: that thread allocates no more there.
  uint32_t other_stack = 0;
  uint64_t other_bytes = 0;
};

// Thread by thread, as what several of them do is mixed differently on each rank: those that are
// alike for longest belong together.  Allocations are the same if bytes and place in the code are.
// Of several threads that part, where that is first on `high`.
std::optional<AllocationSplit> allocation_split(const RankAllocator& high,
                                                const RankAllocator& other,
                                                SamePlace same = SamePlace::kLine);

}  // namespace traintrace
