// The memory of each process of a run: what the tables say, and of those whose events are there
// what these say.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/memory/allocator/allocator_history.h"
#include "analyzer/memory/history.h"
#include "analyzer/model/run.h"

namespace traintrace {

struct ProcessMemory {
  std::vector<BlockGroup> live;              // by bytes, most first
  std::vector<BlockGroup> tensors;           // within it
  std::optional<MemoryHistory> history;      // none: its events were not read
  std::vector<AllocatorHistory> allocators;  // of PyTorch, by device; from the events, too
};

struct RunMemory {
  std::vector<ProcessMemory> processes;  // as Run::processes
};

RunMemory memory_of(const Run& run);

// The tables show something that only the events explain.
bool asks_for_events(const ProcessTrace& trace);

// Those that a report on memory may name.
std::vector<uint32_t> stacks_of_memory(const ProcessTrace& trace);

}  // namespace traintrace
