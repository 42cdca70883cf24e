// Live allocations.  See state.h for the wrappers' side.
//
// Costs: an allocation and its end 14 ns together; 40 ns where three quarters of the table are
// full.
#pragma once

#include <cstdint>

#include "interpose/record/thread.h"

namespace traintrace {

// That such a call takes memory from on this thread; format::kNoDevice: not known.
uint8_t device_allocating(const ThreadState& thread, uint16_t call) noexcept;

void allocations_start() noexcept;
void allocations_drop() noexcept;
// One step more of the table; for growth.cc, by one thread at a time.  False: there is none to be
// had.
bool allocations_grow() noexcept;

}  // namespace traintrace
