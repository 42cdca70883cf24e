// What lies in the buffers of NCCL's operations before and after them (TRAINTRACE_PAYLOAD=small and
// check, docs/payload.md).  This file says what is checked and keeps what comes of it;
// checks_driver.cc puts the work on the job's streams.
//
// The GPU leaves its tallies in a ring of cells in pinned memory.  Whoever launches a check
// reserves cells without waiting for anybody; the tracer's own thread makes records of what is done
// and gives the cells back.  Where none are free, an operation goes unchecked and is counted.
#pragma once

#include <cstdint>

#include "format/payload_check.h"
#include "interpose/payload/check_kernel.h"
#include "interpose/payload/scalars.h"
#include "interpose/record/thread.h"
#include "interpose/tables/tables.h"

namespace traintrace {

inline constexpr uint32_t kCheckCells = 16384;
// What level `small` looks at: it is copied as it is, into one cell.
inline constexpr uint64_t kMostSmallBytes = 64;

struct CheckDriver {
  bool (*may_work)(ThreadState& thread, uint64_t stream);
  // Into `cells`, of the GPU's address; parts x blocks blocks.
  bool (*launch)(ThreadState& thread, uint64_t stream, const check::Launch& launch);
  // `bytes` into the cell, and `stamp` into that of the next one.
  bool (*copy)(ThreadState& thread, uint64_t stream, uint64_t from, uint64_t bytes,
               format::PayloadCell* cell, uint64_t stamp);
};

// `device_cells`: where the GPU finds `cells`, kCheckCells of them.  False: there is no memory for
// the rest.
bool checks_turn_on(const CheckDriver& driver, format::PayloadCell* cells,
                    format::PayloadCell* device_cells, int32_t device) noexcept;
// For good.
void checks_turn_off(ThreadState& thread, const char* why) noexcept;
bool checks_are_on() noexcept;

// The addresses that an operation was given; 0: none.
struct CheckedBuffers {
  uint64_t source;
  uint64_t destination;
};
void checks_operation(const format::Operation& operation, const CheckedBuffers& buffers) noexcept;

// Around a launch: a call outside a group, or the outermost ncclGroupEnd with all it holds.
void checks_before(ThreadState& thread, format::Operation* const* operations,
                   uint32_t count) noexcept;
void checks_after(ThreadState& thread, format::Operation* const* operations, uint32_t count,
                  int result) noexcept;

// Makes records of what is done.  By the tracer's own thread.  False: another one is at it.
bool checks_record(ThreadState& thread) noexcept;
// The same by the thread that ends the process.
void checks_exit() noexcept;

void checks_drop() noexcept;

}  // namespace traintrace
