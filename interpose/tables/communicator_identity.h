// Who a communicator is: an id that comes out the same on all its ranks, from what each rank is
// told alone.  docs/interposing.md says how, and where NCCL's own hash would not do.
#pragma once

#include "interpose/tables/state.h"

namespace traintrace {

// Whether NCCL looked no further than the arguments: the call does not count as a use then.
inline bool refused(int result) noexcept {
  constexpr int kInvalidArgument = 4;
  constexpr int kInvalidUsage = 5;
  return result == kInvalidArgument || result == kInvalidUsage;
}

// Fills in id, NCCL's hash, ordinal, and what of rank and size follows.  `siblings` counts the
// splits of the parent, null where there is none.
void identify(format::Communicator& into, uint32_t number, const CommunicatorArguments& arguments,
              uint32_t* siblings) noexcept;

// Of one whose element goes to another: uses of its unique id, or list of ranks, go on counting.
void remember_identity(const format::Communicator& communicator) noexcept;

void identities_start() noexcept;
void identities_drop() noexcept;

}  // namespace traintrace
