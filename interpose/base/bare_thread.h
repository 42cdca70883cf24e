// A thread that the C library does not know: to do what may block for ever, where nobody may wait
// for it, in any thread and also in a handler of signals.
#pragma once

#include <cstddef>

namespace traintrace {

// glibc's own, by the name that no sanitizer intercepts: one takes clone() for a fork of the job.
// Null: there is none.
using Clone = int (*)(int (*)(void*), void*, int, void*, ...);
extern Clone g_clone;

struct BareThread {
  int (*run)(void*);
  void* argument;
  char* stack;  // 16 bytes aligned
  size_t stack_bytes;
  int* in_use;  // the kernel makes it 0 when the thread has left the stack
};

// It shares the memory, the descriptors and the thread-local storage of the thread that creates it,
// errno too: `run` may do nothing but system calls, by `bare_call`.  All signals are blocked in it.
// The end of the process ends it.  False: there may be no more threads.  Keeps errno.
bool start_bare_thread(const BareThread& thread) noexcept;

// The result, or -errno; errno itself stays as it is.
long bare_call(long number, long a, long b, long c, long d = 0, long e = 0) noexcept;

}  // namespace traintrace
