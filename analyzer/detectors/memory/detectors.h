// The detectors of memory.*, which share what memory_of says of a run.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/memory/process_memory.h"

namespace traintrace {

std::vector<Finding> find_memory_left(const Run& run, const RunMemory& memory);  // leak-at-exit
std::vector<Finding> find_pinned_memory_left(const Run& run, const RunMemory& memory);
std::vector<Finding> find_growth_leaks(const Run& run, const RunMemory& memory);
// Where others wait for a rank that ran out of memory for a leak, the leak is the root.
void put_leaks_before_hangs(std::vector<Finding>& findings);
std::vector<Finding> find_retained_memory(const Run& run, const RunMemory& all);
std::vector<Finding> find_double_frees(const Run& run, const RunMemory& memory);
std::vector<Finding> find_invalid_frees(const Run& run, const RunMemory& memory);
std::vector<Finding> find_handle_leaks(const Run& run, const RunMemory& memory);
std::vector<Finding> find_memory_failures(const Run& run, const RunMemory& memory);  // *-oom
// Of PyTorch's allocator.
std::vector<Finding> find_fragmentation(const Run& run, const RunMemory& memory);
std::vector<Finding> find_cache_bloat(const Run& run, const RunMemory& memory);
std::vector<Finding> find_pending_frees(const Run& run, const RunMemory& memory);
std::vector<Finding> find_allocation_retries(const Run& run, const RunMemory& memory);
std::vector<Finding> find_cache_flushes(const Run& run, const RunMemory& memory);
std::vector<Finding> find_temporary_spikes(const Run& run, const RunMemory& memory);
std::vector<Finding> find_unaccounted(const Run& run, const RunMemory& memory);
std::vector<Finding> find_rank_imbalance(const Run& run, const RunMemory& memory);
// What a rank never gave back is why it has more: the leak says so.
void drop_imbalance_by_leaks(std::vector<Finding>& findings);
std::vector<Finding> find_pinned_waste(const Run& run, const RunMemory& memory);

// Whose it is, and where.
std::vector<Finding> find_library_memory(const Run& run, const RunMemory& memory);
std::vector<Finding> find_extra_contexts(const Run& run, const RunMemory& memory);
std::vector<Finding> find_wrong_devices(const Run& run, const RunMemory& memory);

// All of them.
std::vector<Finding> find_memory_faults(const Run& run);

}  // namespace traintrace
