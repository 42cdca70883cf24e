// How far each stream has come, as far as the job's own queries and synchronisations tell (see
// format::Stream, and docs/interposing.md for what is concluded and what is not).
//
// A mark names a stream and a place in it, or a capture: 16 bits of stream number over 48 bits of
// position; with bit 63 the number of a capture.  0: nothing to be learnt.
//
// Costs: a mark and its completion 4 ns, an event recorded 9 ns, a wait for one 20 ns, a device
// synchronisation 1.5 ns per stream that was ever seen.
#pragma once

#include "interpose/tables/state.h"
#include "interpose/tables/tables.h"

namespace traintrace {

// Index + 1 of a stream, entered here if it was not seen before; 0: the table is full.  `device`
// (-1: the thread's) tells default streams apart.
uint32_t stream_number(ThreadState& thread, uint64_t handle, int32_t device) noexcept;

// One operation more was handed to the stream, at the latest at `ticks`; returns its position.
uint64_t issue_on(uint32_t number, uint64_t ticks) noexcept;
bool has_completed(uint32_t number, uint64_t position) noexcept;

// Which capture the stream is part of, 0: none.
uint32_t capture_of(uint32_t number) noexcept;

void streams_start() noexcept;
void streams_drop() noexcept;

}  // namespace traintrace
