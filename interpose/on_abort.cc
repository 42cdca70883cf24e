// What must not happen to the job: a SIGCHLD or a child that it did not start (so the program is a
// grandchild, whose parent has no exit signal and ends at once), a copy of its page tables (so both
// share its memory until exec), a handler of its own in the wrong process (signals are blocked), a
// descriptor of its own kept open (all are closed but the one that says when the program ends).
// Only system calls from there: functions of libc may take locks, or be cancelled.
#include "interpose/on_abort.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "interpose/clock.h"
#include "interpose/facts.h"

namespace traintrace {
namespace {

constexpr uint64_t kPatienceNs = 5'000'000'000;
constexpr int kAliveDescriptor = 3;

constinit char g_program[kMaxPath] = {};  // empty: nothing is to be started
constinit char g_folder[kMaxPath] = {};
constinit pid_t g_done_in = 0;

struct Launch {
  char** arguments;
  int alive;  // the end of a pipe, open for as long as the program runs
};

alignas(16) constinit char g_starter_stack[16384] = {};
alignas(16) constinit char g_program_stack[16384] = {};

int become_program(void* argument) {
  const Launch& launch = *static_cast<const Launch*>(argument);
  syscall(SYS_setsid);
  if (launch.alive == kAliveDescriptor) {
    syscall(SYS_fcntl, kAliveDescriptor, F_SETFD, 0);
  } else {
    syscall(SYS_dup3, launch.alive, kAliveDescriptor, 0);
  }
  const long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
  for (int standard = 0; standard < kAliveDescriptor; ++standard) {
    if (null != standard) {
      syscall(SYS_dup3, null, standard, 0);
    }
  }
  constexpr unsigned kEnoughWithoutCloseRange = 65536;
  if (syscall(SYS_close_range, kAliveDescriptor + 1, ~0U, 0) != 0) {
    for (unsigned i = kAliveDescriptor + 1; i < kEnoughWithoutCloseRange; ++i) {
      syscall(SYS_close, i);
    }
  }
  char* none[] = {nullptr};
  syscall(SYS_execve, g_program, launch.arguments, none);
  syscall(SYS_exit_group, 127);
  return 0;
}

int start_program(void* argument) {
  clone(become_program, g_program_stack + sizeof g_program_stack, CLONE_VM | CLONE_VFORK | SIGCHLD,
        argument);
  syscall(SYS_exit_group, 0);
  return 0;
}

bool start(Launch& launch) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int starter = clone(start_program, g_starter_stack + sizeof g_starter_stack,
                            CLONE_VM | CLONE_VFORK, &launch);
  while (starter > 0 && syscall(SYS_wait4, starter, nullptr, __WCLONE, nullptr) < 0 &&
         errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return starter > 0;
}

void wait_for_end(int pipe) {
  const uint64_t give_up = nanoseconds(CLOCK_MONOTONIC) + kPatienceNs;
  for (uint64_t now = nanoseconds(CLOCK_MONOTONIC); now < give_up;
       now = nanoseconds(CLOCK_MONOTONIC)) {
    const uint64_t left = give_up - now;
    const timespec time = {static_cast<time_t>(left / 1'000'000'000),
                           static_cast<long>(left % 1'000'000'000)};
    pollfd end = {pipe, 0, 0};
    if (syscall(SYS_ppoll, &end, 1, &time, nullptr, 0) >= 0 || errno != EINTR) {
      return;
    }
  }
}

// Beside this library, as both are built and installed; else in PATH.
bool find_program() {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&find_program), &self) && self.dli_fname[0] == '/') {
    const char* const slash = strrchr(self.dli_fname, '/');
    constexpr const char* kBeside[] = {"/../bin/traintrace", "/../../bin/traintrace"};
    for (const char* const beside : kBeside) {
      Text path(g_program, sizeof g_program);
      path.append(self.dli_fname, static_cast<size_t>(slash - self.dli_fname)) << beside;
      if (path.whole() && access(g_program, X_OK) == 0) {
        return true;
      }
    }
  }
  for (const char* at = getenv("PATH"); at && *at;) {
    const char* const end = strchrnul(at, ':');
    Text path(g_program, sizeof g_program);
    path.append(at, static_cast<size_t>(end - at)) << "/traintrace";
    if (path.whole() && g_program[0] == '/' && access(g_program, X_OK) == 0) {
      return true;
    }
    at = *end ? end + 1 : end;
  }
  return false;
}

bool find_folder(const char* dir) {
  Text path(g_folder, sizeof g_folder);
  if (dir[0] != '/') {
    char here[kMaxPath];
    if (!getcwd(here, sizeof here)) {
      return false;
    }
    path << here << "/";
  }
  path << dir;
  return path.whole();
}

}  // namespace

void on_abort_prepare(ThreadState& thread, const Settings& settings) noexcept {
  if (!settings.snapshot_on_abort) {
    g_program[0] = '\0';
    return;
  }
  const bool found = find_program() && find_folder(settings.dir);
  write_fact(thread, "on-abort", found ? g_program : "nothing: there is no program traintrace");
  if (!found) {
    g_program[0] = '\0';
  }
}

void on_abort() noexcept {
  const pid_t here = getpid();
  pid_t done = __atomic_load_n(&g_done_in, __ATOMIC_RELAXED);
  if (!g_program[0] || done == here ||
      !__atomic_compare_exchange_n(&g_done_in, &done, here, false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  const int saved_errno = errno;
  int ends[2];
  if (syscall(SYS_pipe2, ends, O_CLOEXEC) == 0) {
    char command[] = "attach";
    char option[] = "--snapshot";
    char* arguments[] = {g_program, command, option, g_folder, nullptr};
    Launch launch = {arguments, ends[1]};
    const bool started = start(launch);
    syscall(SYS_close, ends[1]);
    if (started) {
      wait_for_end(ends[0]);
    }
    syscall(SYS_close, ends[0]);
  }
  errno = saved_errno;
}

}  // namespace traintrace
