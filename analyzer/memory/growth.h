// Live memory that becomes more for as long as the job works.
#pragma once

#include <optional>
#include <span>

#include "analyzer/memory/history.h"

namespace traintrace {

struct Growth {
  TimeNs since = 0;             // birth of the oldest copy that is left
  uint64_t bytes_per_step = 0;  // since then; 0: cannot be said
  uint64_t step_count = 0;      // since then, about
  int64_t since_step = 0;       // in which that was, from 1; 0: not all steps are recorded
};

// Whether copies that are still there were born all along from step `start` to `end`: neither all
// at the beginning (weights, a cache that is full), nor only lately (what a collector takes away
// now and then), nor fewer and fewer of them (a cache that fills).  `births`: their steps, in
// order.
bool grows_throughout(std::span<const int64_t> births, int64_t start, int64_t end);

// The number of the first step that the job can have taken (Steps::number_at).
int64_t first_step(const ProcessTrace& trace, const MemoryHistory& history);

std::optional<Growth> growth_of(const ProcessTrace& trace, const MemoryHistory& history,
                                const BlockGroup& group);

}  // namespace traintrace
