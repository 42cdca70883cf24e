// The native stack of the calling thread, as return addresses.
//
// On code that was seen before: no allocation, no lock, no system call.  New code costs a look into
// its module's unwind tables, under the loader's lock, so that the module stays mapped meanwhile.
// Whatever the tables or the stack hold, nothing is read but memory known to be there
// (unwind_stack.h), and a walk ends after `max` frames.
//
// A rule stays in the cache after its code was unloaded, until the next refresh of the module table
// sees that.  If other code came to lie at the same address before that, one stack may have wrong
// frames; but a walk that leads to unknown code, or ends where nobody says that the stack does, has
// the table refreshed and starts again by itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/stacks/native_memo.h"

namespace traintrace {

// Where a walk begins: in a function of the calling thread's that is compiled with a frame pointer.
struct WalkStart {
  const void* frame;  // its __builtin_frame_address(0): the caller's frame pointer and the address
                      // to return to
  const void* cfa;    // the stack pointer before the call
};

// Of the function that it is written in.
[[gnu::always_inline]] inline WalkStart walk_from_here() noexcept {
#if defined(__aarch64__)  // where functions keep those two words at the lower end of their frame
  return {__builtin_frame_address(0), __builtin_dwarf_cfa()};
#else
  const void* const frame = __builtin_frame_address(0);
  return {frame, static_cast<const uint64_t*>(frame) + 2};
#endif
}

// Return addresses of the callers, innermost first.  Where a signal handler was called, the address
// after its return address is that of the interrupted instruction.
size_t native_frames(WalkStart start, uint64_t* out, size_t max) noexcept;

// The same for a thread that remembers its walks, with a hash of the frames; and that hash alone,
// where everything that the last walk from there has read is as it was.
size_t native_frames(WalkStart start, uint64_t* out, size_t max, NativeMemo& memo,
                     uint64_t& hash) noexcept;
bool native_hash_known(WalkStart start, const NativeMemo& memo, uint64_t& hash) noexcept;

// Looks into unwind tables since the start of the process.
uint64_t native_frames_misses() noexcept;

}  // namespace traintrace
