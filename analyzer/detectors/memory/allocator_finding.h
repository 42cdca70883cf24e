// What findings about PyTorch's allocator have in common.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {

constexpr bool is_much(uint64_t bytes, uint64_t of) {
  return bytes >= kMuchMemory && bytes >= of / kMuchOfPeak;
}

struct AllocatorCase {
  MemorySite site;
  const AllocatorHistory* history = nullptr;
};

// What `look` says of the allocators of all ranks, that with the most bytes first.  `look` fills in
// stack, bytes, count and text, or says that there is nothing.
using AllocatorLook = std::function<bool(const ProcessMemory& memory,
                                         const AllocatorHistory& history, MemorySite& site)>;
std::vector<AllocatorCase> allocator_cases(const Run& run, const RunMemory& memory,
                                           const AllocatorLook& look);

// About all of them; likely at most.
Finding allocator_finding(const Run& run, std::string_view code,
                          const std::vector<AllocatorCase>& cases);
std::string at_place(const Finding& finding);  // ", at train.py:12 in step"; or nothing

}  // namespace traintrace
