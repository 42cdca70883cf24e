// What PyTorch's caching allocator says of itself: blocks in use and totals per device.
//
// It reports with its lock held: nothing here waits, allocates or calls anybody, but where the
// table is full before the own thread came to make it larger (growth.h, help_to_grow).
#pragma once

#include <cstdint>

namespace traintrace {

struct TensorReport {
  uint64_t address;  // 0: this version does not say
  int64_t change;    // bytes; negative: a free
  bool has_totals;
  uint64_t allocated;  // of the device, afterwards
  uint64_t reserved;
  uint8_t device;
  uint32_t stack;
  uint64_t ticks;
};
void tensor_reported(const TensorReport& report) noexcept;

void tensors_start() noexcept;
void tensors_drop() noexcept;
// One step more of the table; for growth.cc, by one thread at a time.  False: there is none to be
// had.
bool tensors_grow() noexcept;

}  // namespace traintrace
