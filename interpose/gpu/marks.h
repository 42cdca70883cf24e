// GPU progress, level `marks`: the GPU writes a number before and after each launch of NCCL
// operations (format::MarkWords).  This file keeps the numbers; marks_driver.cc talks to the driver
// and decides whether there are marks at all, marks_file.cc has the file that the words lie in.
//
// A stream's numbers are given by one thread at a time: who finds another one at it, in the middle
// of a launch, goes without marks.
#pragma once

#include "interpose/life/settings.h"
#include "interpose/record/thread.h"
#include "interpose/tables/tables.h"

namespace traintrace {

inline constinit GpuProgress g_gpu_progress = GpuProgress::kObserve;

struct MarkDriver {
  // Whether marks may be put on the stream now: not while it captures.
  bool (*may_write)(ThreadState& thread, uint64_t stream);
  bool (*write)(ThreadState& thread, uint64_t stream, const uint32_t& word, uint32_t value);
};

// From now on launches are marked: those of communicators that are made from now on, on `device`.
void marks_turn_on(const MarkDriver& driver, format::MarkWords* words, int32_t device) noexcept;
// For good.  Operations under way get no further marks.
void marks_turn_off(ThreadState& thread, const char* why) noexcept;
bool marks_are_on() noexcept;

// When a communicator's creation is entered, its element being filled in.
void marks_communicator(ThreadState& thread, uint32_t number) noexcept;
// Its element goes to another one.
void marks_forget(uint32_t index) noexcept;

// Around a launch: a call outside a group, or the outermost ncclGroupEnd with all it holds.
void marks_before(ThreadState& thread, format::Operation* const* operations,
                  uint32_t count) noexcept;
void marks_after(ThreadState& thread, format::Operation* const* operations, uint32_t count,
                 int result) noexcept;

// At the entry of an abort, for each recent operation: what its marks say now is what counts.
void marks_freeze(format::Operation& operation) noexcept;

// Copies the words into the trace.
void marks_copy() noexcept;

void marks_start() noexcept;
void marks_drop() noexcept;

}  // namespace traintrace
