// Live allocations.  See state.h for the wrappers' side.
//
// Costs: an allocation and its end 14 ns together; 40 ns where three quarters of the table are
// full.
#pragma once

namespace traintrace {

void allocations_start() noexcept;
void allocations_drop() noexcept;
// One step more of the table; for growth.cc, by one thread at a time.  False: there is none to be
// had.
bool allocations_grow() noexcept;

}  // namespace traintrace
