// The times that memory ran out, and what was live then.
//
// A failure costs a copy of the live tables, some ms where they are full.
#pragma once

#include <cstdint>

#include "interpose/record/thread.h"

namespace traintrace {

struct Failure {
  uint16_t call;   // that failed, or the id of PyTorch's report
  int32_t result;  // of the call
  uint8_t device;
  uint64_t bytes;      // asked for, 0: not known
  uint64_t allocated;  // PyTorch's totals, 0: not known
  uint64_t reserved;
  uint32_t stack;
  uint64_t ticks;
};
enum class FailureSort : uint8_t { kReport, kCall };
void memory_ran_out(ThreadState& thread, FailureSort sort, const Failure& failure) noexcept;

// What the job was told of the memory of the thread's device.
void memory_asked(const ThreadState& thread, uint64_t free, uint64_t total,
                  uint64_t ticks) noexcept;

void failures_start() noexcept;

}  // namespace traintrace
