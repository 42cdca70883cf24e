// Names of kernels.  state.h has the wrappers' side.
//
// Registrations come from static constructors, some 100,000 of them where PyTorch is loaded, long
// before it is known whether this process will use a GPU: 13 ns and 16 bytes each.  A launch of a
// kernel that is defined already costs 2 ns.
#pragma once

namespace traintrace {

void kernels_start() noexcept;
void kernels_drop() noexcept;

}  // namespace traintrace
