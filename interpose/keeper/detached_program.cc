#include "interpose/keeper/detached_program.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/base/bare_thread.h"
#include "interpose/calls/elf_next.h"

namespace traintrace {
namespace {

constexpr size_t kStackBytes = 16384;
alignas(16) constinit char g_starter_stack[kStackBytes] = {};
alignas(16) constinit char g_program_stack[kStackBytes] = {};
constinit int g_busy = 0;
constinit int g_exec_failed = 0;  // stored by the child, which shares this memory

[[gnu::constructor]] void find_clone() {
  g_clone = reinterpret_cast<Clone>(next_definition("__clone"));
}

int become_program(void* argument) {
  const DetachedProgram& program = *static_cast<const DetachedProgram*>(argument);
  syscall(SYS_setsid);
  if (program.descriptor == kPassedDescriptor) {
    syscall(SYS_fcntl, kPassedDescriptor, F_SETFD, 0);
  } else {
    syscall(SYS_dup3, program.descriptor, kPassedDescriptor, 0);
  }
  const long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
  for (int standard = 0; standard < kPassedDescriptor; ++standard) {
    if (null != standard) {
      syscall(SYS_dup3, null, standard, 0);
    }
  }
  constexpr unsigned kEnoughWithoutCloseRange = 65536;
  if (syscall(SYS_close_range, kPassedDescriptor + 1, ~0U, 0) != 0) {
    for (unsigned i = kPassedDescriptor + 1; i < kEnoughWithoutCloseRange; ++i) {
      syscall(SYS_close, i);
    }
  }
  char* none[] = {nullptr};
  syscall(SYS_execve, program.path, program.arguments, none);
  __atomic_store_n(&g_exec_failed, 1, __ATOMIC_RELEASE);
  syscall(SYS_exit_group, 127);
  return 0;
}

int start_program(void* argument) {
  const int started = g_clone(become_program, g_program_stack + sizeof g_program_stack,
                              CLONE_VM | CLONE_VFORK | SIGCHLD, argument);
  syscall(SYS_exit_group, started > 0 ? 0 : 1);
  return 0;
}

}  // namespace

void forget_detached() noexcept {
  __atomic_store_n(&g_busy, 0, __ATOMIC_RELEASE);
}

bool start_detached(const DetachedProgram& program) noexcept {
  if (!g_clone || __atomic_exchange_n(&g_busy, 1, __ATOMIC_ACQUIRE) != 0) {
    return false;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  __atomic_store_n(&g_exec_failed, 0, __ATOMIC_RELEASE);
  const int starter = g_clone(start_program, g_starter_stack + sizeof g_starter_stack,
                              CLONE_VM | CLONE_VFORK, const_cast<DetachedProgram*>(&program));
  int status = 1;
  while (starter > 0 && syscall(SYS_wait4, starter, &status, __WCLONE, nullptr) < 0 &&
         errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const bool started =
      starter > 0 && status == 0 && __atomic_load_n(&g_exec_failed, __ATOMIC_ACQUIRE) == 0;
  __atomic_store_n(&g_busy, 0, __ATOMIC_RELEASE);
  return started;
}

}  // namespace traintrace
