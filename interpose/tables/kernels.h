// Names of kernels.  state.h has the wrappers' side.
//
// Registrations come from static constructors, some 100,000 of them where PyTorch is loaded, long
// before it is known whether this process will use a GPU: 13 ns and 16 bytes each.  A launch of a
// kernel that is defined already costs 2 ns.
#pragma once

#include <cstdint>

#include "interpose/record/thread.h"

namespace traintrace {

// Defines the name of `function`, unless it has one.
void kernel_seen(ThreadState& thread, uint64_t function, const char* name) noexcept;

void kernels_start() noexcept;
void kernels_drop() noexcept;

}  // namespace traintrace
