// The communicators of this process, and who they are to other ranks.  See state.h for what the
// wrappers call, docs/interposing.md for how the identity comes about.
#pragma once

#include "interpose/state.h"
#include "interpose/tables.h"

namespace traintrace {

// Index + 1; one first seen here is entered as such.  0: the table is full.
uint32_t number_of_communicator(ThreadState& thread, uint64_t handle, uint64_t ticks) noexcept;
inline format::Communicator& communicator_at(uint32_t number) noexcept {
  return g_tables.communicators[number - 1];
}

uint32_t communicators_used() noexcept;
template <class Body>
void for_each_communicator(Body body) noexcept {
  const uint32_t used = communicators_used();
  for (uint32_t number = 1; number <= used; ++number) {
    format::Communicator& communicator = communicator_at(number);
    if (load(communicator.used) != 0) {
      body(number, communicator);
    }
  }
}

// At the outermost ncclGroupEnd: what was created or deferred by this thread is there now, or not.
void communicators_group_ended(ThreadState& thread, int result, uint64_t ticks) noexcept;

void communicators_start() noexcept;
void communicators_drop() noexcept;

}  // namespace traintrace
