// The parts of a snapshot of PyTorch's memory, one by one.
#pragma once

#include <optional>
#include <string_view>

#include "analyzer/importers/plain_value.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

enum class SnapshotAction : uint8_t {
  kAlloc,
  kFree,
  kSegmentAlloc,
  kSegmentFree,
  kMap,
  kUnmap,
  kOom
};

// Of a device's history.
struct SnapshotEntry {
  SnapshotAction action = SnapshotAction::kAlloc;
  TimeNs time = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t device_free = 0;
  uint32_t stack = 0;
  // What the device had after it; who reads the file finds out.
  uint64_t allocated = 0;
  uint64_t reserved = 0;
};

// 0 and empty for what is not there, or not of that kind.
uint64_t snapshot_number(const Value& record, std::string_view key);
std::string_view snapshot_text(const Value& record, std::string_view key);
TimeNs snapshot_time(const Value& record);

// None: it changes nothing, or is no entry.  Without its stack.
std::optional<SnapshotEntry> snapshot_entry(const Value& record);

// As the allocator rounds what was asked for.
uint64_t snapshot_rounded(uint64_t bytes);

}  // namespace traintrace
