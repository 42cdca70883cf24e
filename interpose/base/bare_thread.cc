#include "interpose/base/bare_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <cerrno>

namespace traintrace {

constinit Clone g_clone = nullptr;

bool start_bare_thread(const BareThread& thread) noexcept {
  if (g_clone == nullptr) {
    return false;
  }
  const int saved_errno = errno;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // By it a sandbox answers a call in its place: blocked, it ends the process.
  sigdelset(&all, SIGSYS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  constexpr int kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                         CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
  const int tid = g_clone(thread.run, thread.stack + thread.stack_bytes, kFlags, thread.argument,
                          nullptr, nullptr, thread.in_use);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = saved_errno;
  return tid > 0;
}

#if defined(__x86_64__)

long bare_call(long number, long a, long b, long c, long d, long e) noexcept {
  register long fourth asm("r10") = d;
  register long fifth asm("r8") = e;
  long result = number;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
  return result;
}

#elif defined(__aarch64__)

long bare_call(long number, long a, long b, long c, long d, long e) noexcept {
  register long which asm("x8") = number;
  register long first asm("x0") = a;
  register long second asm("x1") = b;
  register long third asm("x2") = c;
  register long fourth asm("x3") = d;
  register long fifth asm("x4") = e;
  asm volatile("svc 0"
               : "+r"(first)
               : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
               : "memory", "cc");
  return first;
}

#endif

}  // namespace traintrace
