// A process's memory as PyTorch's snapshots describe it: segments that blocks fill without a gap,
// and events of which each fits to what is there then.  Viewers stop at anything else.
#pragma once

#include <vector>

#include "analyzer/memory/memory_life.h"

namespace traintrace {

struct SnapshotSegment {
  LiveBlock memory;               // of an expandable segment all that is mapped in one piece
  bool is_small = false;          // of PyTorch's pool for small blocks
  std::vector<LiveBlock> blocks;  // by address; what lies between them is free
  std::vector<bool> pending;      // of these: freed, but streams still work on it
};

// What an event does to a block or a segment.
enum class SnapshotAct : uint8_t {
  kTake,
  kGive,
  kRequest,   // of a free that has to wait for streams
  kComplete,  // of the same
};

struct SnapshotEvent {
  TimeNs time = 0;
  uint32_t stack = 0;
  SnapshotAct act = SnapshotAct::kTake;
  bool segment = false;  // else a block
  LiveBlock block;
};

struct SnapshotState {
  std::vector<SnapshotSegment> segments;  // by device and address
  std::vector<SnapshotEvent> events;      // by time
};

SnapshotState snapshot_state(const ProcessTrace& trace);

}  // namespace traintrace
