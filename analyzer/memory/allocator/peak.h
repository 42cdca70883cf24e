// What PyTorch's allocator had handed out when that was most.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "analyzer/memory/allocator/allocator_history.h"
#include "analyzer/memory/history.h"

namespace traintrace {

// By stack: bytes then in use; most first.
std::vector<std::pair<uint32_t, uint64_t>> held_at_peak(const ProcessTrace& trace,
                                                        const AllocatorHistory& history);

// One block that is gone with the step in which it came, without which the peak would be lower.
struct Spike {
  uint32_t stack = 0;
  uint64_t bytes = 0;
  TimeNs taken = 0, freed = 0;
  uint64_t without = 0;  // the peak without what that stack allocates
};
std::optional<Spike> spike_of(const ProcessTrace& trace, const AllocatorHistory& history,
                              const MemoryHistory& of_process);

}  // namespace traintrace
