// How the tracer learns that a frame of its own is unwound: by a C++ exception, a cancelled thread,
// pthread_exit.
//
// Destructors would need the runtime of C++, and a landing pad on the way.  An unwinder asks each
// frame's personality routine first, though, and ours does what is to be done at once and lets the
// unwinder go on: nobody's frame, handler or exception is in any other's way.  It costs nothing
// where nothing is unwound.  longjmp asks nobody.
#pragma once

#include <cstdint>

// In the body of a function: `routine` is its personality.
#define TT_TELL_WHEN_UNWOUND(routine) asm volatile(".cfi_personality 0x1b, " #routine)

namespace traintrace {

// As the Itanium C++ ABI has them.
inline constexpr int kContinueUnwind = 8;
inline bool is_cleaning_up(int actions) noexcept {
  constexpr int kCleanupPhase = 2;
  return (actions & kCleanupPhase) != 0;
}

// The innermost open call of the calling thread is over.
extern "C" [[gnu::visibility("hidden")]] int tt_call_unwound(int version, int actions,
                                                             uint64_t exception_class,
                                                             void* exception,
                                                             void* context) noexcept;
extern "C" [[gnu::visibility("hidden")]] int tt_host_function_unwound(int version, int actions,
                                                                      uint64_t exception_class,
                                                                      void* exception,
                                                                      void* context) noexcept;

}  // namespace traintrace
