// The tables of a trace that say who has memory: elements as in tables.h.
#pragma once

#include <cstdint>

namespace traintrace::format {

struct Allocation {
  uint64_t address;  // or handle of memory.  0: unused, 1: freed and reusable; stored last
  uint64_t bytes;
  uint64_t ticks;
  uint64_t stream;  // handle of a stream-ordered allocation
  uint32_t stack;
  uint16_t call;
  uint8_t device;
  uint8_t reserved;
};
static_assert(sizeof(Allocation) == 40);

// Memory in use of PyTorch's caching allocator, which cuts it from what kAllocations has.  An
// element that was freed keeps all but its address until it is used again: what Python frees as the
// process ends is told there, however long ago the events of its allocation were overwritten.
struct TensorBlock {
  uint64_t address;  // even; 0: unused, odd: freed_at(ticks of its free), reusable; stored last
  uint64_t bytes;    // rounded by the allocator
  uint64_t ticks;
  uint32_t stack;
  uint8_t device;
  uint8_t reserved[3];
};
static_assert(sizeof(TensorBlock) == 32);

// TensorBlock::address once it is freed.  1: when is not known, as before version 5.
constexpr uint64_t freed_at(uint64_t ticks) {
  return ticks << 1 | 1;
}
constexpr bool is_freed(const TensorBlock& block) {
  return (block.address & 1) != 0;
}
constexpr uint64_t freed_ticks(const TensorBlock& block) {
  return block.address >> 1;
}

// The allocator's own totals of a device.  It reports under a lock of its own, so one thread writes
// at a time; words may be one report apart.
struct TensorDevice {
  uint64_t ticks;      // of the newest report, 0: none
  uint64_t allocated;  // bytes in use and bytes held, as it said then
  uint64_t reserved;
  uint64_t peak_allocated;  // largest seen, and when
  uint64_t peak_reserved;
  uint64_t peak_ticks;
  uint64_t before;       // in use before the first report that was seen
  uint64_t allocations;  // reports
  uint64_t frees;
  // Bytes allocated less bytes freed, by these reports: with `before` it is `allocated`, unless
  // reports were missed.
  int64_t change;
};
static_assert(sizeof(TensorDevice) == 80);

// When memory ran out.  A job that catches the error may run out again for hours; what matters is
// how it began and how it ended.  So of each of two sorts, PyTorch's reports and calls of CUDA that
// failed, the first kFirstFailures and the last kLastFailures are kept.
struct OutOfMemory {
  uint64_t ticks;      // 0: unused; stored last
  uint64_t bytes;      // asked for, 0: not known (a call that needs memory for itself)
  uint64_t allocated;  // PyTorch's totals of the device, 0: not known
  uint64_t reserved;
  uint64_t free;  // of the device, as the job itself asked last, at
  uint64_t total;
  uint64_t asked_ticks;  // 0: it never did
  uint32_t number;       // of all failures in this process, from 1
  uint32_t stack;
  uint16_t call;
  uint8_t device;
  uint8_t reserved_bytes;
  int32_t result;  // of the call, 0: PyTorch's report
  // The live blocks at that time are the elements of kHeldBlocks with this `number`; that many were
  // copied, and so many did not fit.  0 and 0: of a failure whose place in kHeldBlocks a later one
  // took, or whose copy was cut short.
  uint32_t held;
  uint32_t not_held;
};
static_assert(sizeof(OutOfMemory) == 80);
inline constexpr uint32_t kFirstFailures = 8;
inline constexpr uint32_t kLastFailures = 8;

// An element of kAllocations or kTensorBlocks when memory ran out last.
struct HeldBlock {
  uint64_t address;  // stored last, 0: unused
  uint64_t bytes;
  uint32_t stack;
  uint32_t number;  // OutOfMemory::number
  uint16_t call;    // of Allocation; a block of PyTorch's has the report's id
  uint8_t device;
  uint8_t reserved[5];
};
static_assert(sizeof(HeldBlock) == 32);
}  // namespace traintrace::format
