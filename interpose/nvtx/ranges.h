// Ranges of NVTX: the ids of their names, and what each thread has open.
//
// Here are the tables, and range_records.h has the calls.  No allocation, lock or system call but
// where a name is new, or a thread pushes its first range.
#pragma once

#include <cstdint>

#include "interpose/nvtx/range_names.h"
#include "interpose/record/thread.h"

namespace traintrace {

// 0: there are too many different names (counted).  `domain`: null is the default one.
uint32_t id_of_range(ThreadState& thread, const Registered* domain, const RangeName& name) noexcept;

// `domain`: as OpenRange has it.
void range_opened(ThreadState& thread, uint32_t domain, uint32_t id, const RangeName& name,
                  uint64_t ticks) noexcept;
// The innermost one of that domain.  False: none is known.  `id` 0: it found no room in the table,
// or has none.  `wanted`: the innermost one with that id; 0: with any.
bool range_closed(ThreadState& thread, uint32_t domain, uint32_t& id, uint32_t wanted = 0) noexcept;
// A step or a note: where one of that domain is open already, `name` takes its place.
void range_replaced(ThreadState& thread, uint32_t domain, const RangeName& name,
                    uint64_t ticks) noexcept;

inline void range_opened(ThreadState& thread, const Registered* domain, uint32_t id,
                         const RangeName& name, uint64_t ticks) noexcept {
  range_opened(thread, number_of(domain), id, name, ticks);
}
inline bool range_closed(ThreadState& thread, const Registered* domain, uint32_t& id) noexcept {
  return range_closed(thread, number_of(domain), id);
}

void ranges_start() noexcept;
void ranges_drop() noexcept;

}  // namespace traintrace
