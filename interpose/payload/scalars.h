// The scalars that the job fetches from a GPU itself (TRAINTRACE_PAYLOAD): `.item()`, `if tensor:`,
// a loss that is printed.  Each is a copy of 1 to 8 bytes to the host and a synchronisation, or a
// synchronous copy; once that has returned, the job reads the bytes, and so do we.
//
// Only what the thread waits for at once counts: the copy and the synchronisation of its stream
// follow each other, with nothing but further copies of that sort between them.  After any other
// call of the thread the memory may hold something else by then, so the copy is forgotten.
#pragma once

#include <cstdint>

#include "interpose/calls/open_call.h"
#include "interpose/life/settings.h"

namespace traintrace {

inline constinit Payload g_payload = Payload::kOff;

inline constexpr uint64_t kMostScalarBytes = 8;

// A copy that succeeded.
struct CopyToHost {
  uint64_t address;
  uint64_t bytes;   // 1 to kMostScalarBytes
  uint64_t stream;  // as the call meant it (state.h)
};

// One system call: a load could fault where another thread has unmapped the memory meanwhile.
void read_scalar(ThreadState& thread, const CopyToHost& copy, uint32_t stack,
                 uint64_t ticks) noexcept;

// Before a call is shown as the thread's last one: whether that is the newest pending copy.
inline bool scalars_are_pending(const ThreadState& thread) noexcept {
  return thread.scalars.count != 0 && thread.slot->last_call_ticks == thread.scalars.ticks;
}

inline void scalar_pending(ThreadState& thread, const CopyToHost& copy,
                           const OpenFrame& frame) noexcept {
  PendingScalars& scalars = thread.scalars;
  if (scalars.count < PendingScalars::kMost) {
    scalars.copies[scalars.count++] = {copy.address, copy.stream, frame.stack,
                                       static_cast<uint32_t>(copy.bytes)};
  }
  scalars.ticks = frame.ticks;
}

// After a successful synchronisation that followed them; null: of all streams of the device.
void read_pending_scalars(ThreadState& thread, const uint64_t* stream, uint64_t ticks) noexcept;

// What is recorded, as far as the system allows it.
void payload_start(ThreadState& thread, const Settings& settings) noexcept;

}  // namespace traintrace
