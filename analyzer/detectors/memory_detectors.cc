#include "analyzer/detectors/memory_detectors.h"

#include <iterator>

namespace traintrace {

std::vector<Finding> find_memory_faults(const Run& run) {
  using MemoryDetector = std::vector<Finding> (*)(const Run&, const RunMemory&);
  constexpr MemoryDetector kDetectors[] = {
      find_growth_leaks,  find_memory_left,      find_pinned_memory_left, find_double_frees,
      find_invalid_frees, find_handle_leaks,     find_memory_failures,    find_retained_memory,
      find_fragmentation, find_cache_bloat,      find_pending_frees,      find_allocation_retries,
      find_cache_flushes, find_temporary_spikes, find_unaccounted,        find_rank_imbalance,
      find_pinned_waste,  find_library_memory,   find_extra_contexts,     find_wrong_devices,
  };
  const RunMemory memory = memory_of(run);
  std::vector<Finding> findings;
  for (const MemoryDetector detector : kDetectors) {
    std::vector<Finding> found = detector(run, memory);
    std::move(found.begin(), found.end(), std::back_inserter(findings));
  }
  return findings;
}

}  // namespace traintrace
