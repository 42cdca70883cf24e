// The communicators of this process, and who they are to other ranks.  See state.h for what the
// wrappers call, docs/interposing.md for how the identity comes about.
#pragma once

#include "interpose/tables/state.h"
#include "interpose/tables/tables.h"

namespace traintrace {

// One first seen here is entered as such.  0: the table is full.
uint32_t number_of_communicator(ThreadState& thread, uint64_t handle, uint64_t ticks) noexcept;
inline uint32_t index_of_communicator(uint32_t number) noexcept {
  const uint32_t count = g_tables.communicator_count;
  return number <= count ? number - 1 : (number - 1) % count;
}
// The element, which may belong to a later one if this one has ended.
inline format::Communicator& communicator_at(uint32_t number) noexcept {
  return g_tables.communicators[index_of_communicator(number)];
}
inline bool is_in_table(uint32_t number) noexcept {
  const format::Communicator& communicator = communicator_at(number);
  return load(communicator.used) != 0 && communicator.number == number;
}

uint32_t communicators_used() noexcept;
template <class Body>
void for_each_communicator(Body body) noexcept {
  const uint32_t used = communicators_used();
  for (uint32_t index = 0; index < used; ++index) {
    format::Communicator& communicator = g_tables.communicators[index];
    if (load(communicator.used) != 0) {
      body(communicator.number, communicator);
    }
  }
}

// At the outermost ncclGroupEnd: what was created or deferred by this thread is there now, or not.
void communicators_group_ended(ThreadState& thread, int result, uint64_t ticks) noexcept;

void communicators_start() noexcept;
void communicators_drop() noexcept;

}  // namespace traintrace
