// Copies and sets of memory with nothing computed or communicated beside them: time that a GPU
// lost though it was not idle.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct ExposedCopy {
  const GpuWork* work;
  int64_t ns;
};

// Of one device's `work` by start.  Where several copies run side by side, the time is that of the
// first of them: together they are exactly TimePartition::exposed_memory_ns.
std::vector<ExposedCopy> exposed_copies(std::span<const GpuWork> work);

// Whether the host's side is pageable, by the name that CUPTI gives the copy.
bool is_pageable_copy(std::string_view name);

}  // namespace traintrace
