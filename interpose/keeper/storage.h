// What sort of storage a path lies on, without touching it: a dead file server would block the
// calling rank for ever.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/base/files.h"

namespace traintrace {

enum class Storage : uint8_t { kLocal, kMemory, kNetwork };

// By the text of /proc/self/mountinfo, for an absolute path without symbolic links, `.` or `..`.
Storage storage_of(const char* mountinfo, const char* path) noexcept;

enum class Resolved : uint8_t { kLocally, kOverNetwork, kTooLong, kUnknown, kInCircles };

// Follows the symbolic links of an absolute path as far as they lead through local storage.
// Parts that do not exist are taken as they are.
Resolved resolve_locally(const char* mountinfo, const char* path, Text& into) noexcept;

// Of this process.
struct MemoryInUse {
  uint64_t addresses;  // bytes, for RLIMIT_AS
  uint64_t data;       // for RLIMIT_DATA
};
MemoryInUse memory_in_use() noexcept;

// How many bytes may still be used in memory before a container's limit is reached, or before the
// machine has to swap; UINT64_MAX: not known.
uint64_t memory_headroom() noexcept;

}  // namespace traintrace
