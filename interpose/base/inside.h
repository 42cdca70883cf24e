// Whether the tracer is at work for a thread: then calls of a signal handler that interrupted it
// are passed through.
#pragma once

#include <cstdint>

#include "interpose/record/thread.h"

namespace traintrace {

// Of the function that this is written in: what its callers keep on the stack lies above, what it
// keeps itself below.
[[gnu::always_inline]] inline const void* here() noexcept {
#if defined(__aarch64__)  // where a frame's pointer leads to its lower end
  return __builtin_dwarf_cfa();
#else
  return __builtin_frame_address(0);
#endif
}

inline uint64_t scrambled(const void* word) noexcept {
  return reinterpret_cast<uint64_t>(word) ^ 0x7472'6163'656d'6521u;
}

// Cold.  Whether the work of the tracer that `thread.inside` tells of goes on once the caller,
// whose here() that is, is done; else a handler of the job's left it for good (siglongjmp).
bool is_still_inside(ThreadState& thread, const void* here) noexcept;
inline bool may_enter_tracer(ThreadState& thread, const void* here) noexcept {
  return thread.inside == nullptr || !is_still_inside(thread, here);
}

// Until leave_tracer() a signal handler's calls are passed through.  `mark`, on the stack, holds
// its own address scrambled until then.
inline void enter_tracer(ThreadState& thread, const uint64_t* mark) noexcept {
  thread.inside = mark;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
inline void leave_tracer(ThreadState& thread) noexcept {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread.inside = nullptr;
}

// What is recorded beside calls.  False: it interrupted the tracer itself, and is not.
struct InsideMark {
  uint64_t alive;
};
[[gnu::always_inline]] inline bool enter_tracer_if_free(ThreadState& thread,
                                                        InsideMark& mark) noexcept {
  if (!may_enter_tracer(thread, here())) [[unlikely]] {
    return false;
  }
  mark.alive = scrambled(&mark);
  enter_tracer(thread, &mark.alive);
  return true;
}

}  // namespace traintrace
