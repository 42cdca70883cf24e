// What a process took and gave back of memory, in one order, whoever told of it: calls, and the
// reports of PyTorch's allocator.
#pragma once

#include <vector>

#include "analyzer/memory/blocks.h"

namespace traintrace {

enum class Holder : uint8_t {
  kCall,     // a call, for itself
  kSegment,  // a call, for PyTorch's allocator to cut blocks from
  kBlock,    // such a block
};

struct LiveBlock {
  uint64_t address = 0;
  uint64_t bytes = 0;
  TimeNs time = 0;  // when it was taken, 0: not known
  uint32_t stack = 0;
  uint32_t call = 0;
  int device = -1;  // -1: not known, or the host
  MemoryKind kind = MemoryKind::kDevice;
  Holder holder = Holder::kCall;
  Owner owner = Owner::kUnknown;
  bool mapped = false;  // a part of a range of addresses: its neighbours may be one with it
};

struct MemoryEvent {
  TimeNs time = 0;
  uint32_t stack = 0;  // of whoever took it, or gave it back
  bool taken = false;
  LiveBlock block;
};

// `before`, and what `events` make of it one by one, is `live`: what contradicts the tables, or
// itself, is left out.
struct MemoryLife {
  std::vector<LiveBlock> before;
  std::vector<MemoryEvent> events;  // by time; empty if they were not read
  std::vector<LiveBlock> live;      // by holder and address
};

MemoryLife memory_life(const ProcessTrace& trace);

// In use: what lies in PyTorch's segments counts by its blocks, and memory of others not at all.
inline bool is_in_use(const LiveBlock& block) {
  return block.holder != Holder::kSegment && block.kind != MemoryKind::kImported;
}

}  // namespace traintrace
