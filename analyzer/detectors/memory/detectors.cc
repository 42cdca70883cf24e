#include "analyzer/detectors/memory/detectors.h"

#include "analyzer/detectors/each_detector.h"

namespace traintrace {

std::vector<Finding> find_memory_faults(const Run& run) {
  using MemoryDetector = std::vector<Finding> (*)(const Run&, const RunMemory&);
  constexpr NamedDetector<MemoryDetector> kDetectors[] = {
      TT_DETECTOR(find_growth_leaks),       TT_DETECTOR(find_memory_left),
      TT_DETECTOR(find_pinned_memory_left), TT_DETECTOR(find_double_frees),
      TT_DETECTOR(find_invalid_frees),      TT_DETECTOR(find_handle_leaks),
      TT_DETECTOR(find_memory_failures),    TT_DETECTOR(find_retained_memory),
      TT_DETECTOR(find_fragmentation),      TT_DETECTOR(find_cache_bloat),
      TT_DETECTOR(find_pending_frees),      TT_DETECTOR(find_allocation_retries),
      TT_DETECTOR(find_cache_flushes),      TT_DETECTOR(find_temporary_spikes),
      TT_DETECTOR(find_unaccounted),        TT_DETECTOR(find_rank_imbalance),
      TT_DETECTOR(find_pinned_waste),       TT_DETECTOR(find_library_memory),
      TT_DETECTOR(find_extra_contexts),     TT_DETECTOR(find_wrong_devices),
  };
  const RunMemory memory = memory_of(run);
  std::vector<Finding> findings;
  find_with_each(kDetectors, findings, run, memory);
  drop_imbalance_by_leaks(findings);
  return findings;
}

}  // namespace traintrace
