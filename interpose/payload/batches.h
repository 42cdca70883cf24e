// Hashes of what the job sends to its GPUs (TRAINTRACE_PAYLOAD=batches): whether two ranks train on
// the same data, or one on the same data again and again.
#pragma once

#include <cstdint>

#include "interpose/calls/open_call.h"
#include "interpose/tables/tables.h"

namespace traintrace {

inline constexpr uint64_t kFewestBatchBytes = 512;
// Of more, samples are hashed: that many, from the first bytes to the last at equal distances.
inline constexpr uint64_t kMostHashedBytes = 64 << 10;
inline constexpr uint64_t kSamples = 64;
inline constexpr uint64_t kSampleBytes = 64;

// After a successful copy of `bytes` from `address`, and not while its stream is capturing.  Memory
// that is not to be read, or cannot be, is left out.  A system call for 4 KiB or the samples.
void record_batch(ThreadState& thread, uint64_t address, uint64_t bytes, uint32_t stack,
                  uint64_t ticks) noexcept;

// Memory that a processor should not read: managed, which would move to the host; write-combined,
// which is read very slowly; registers of a device, which may change when they are read.
void avoid_memory(uint64_t address, uint64_t bytes) noexcept;
void memory_avoided_freed(uint64_t address) noexcept;
bool is_avoided(uint64_t address, uint64_t bytes) noexcept;
extern uint32_t g_avoided;  // how many there are
inline void memory_freed(uint64_t address) noexcept {
  if (load(g_avoided) != 0) [[unlikely]] {
    memory_avoided_freed(address);
  }
}

}  // namespace traintrace
