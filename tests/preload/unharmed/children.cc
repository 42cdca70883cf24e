// Jobs that have children of their own, are one, or mind every signal.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <thread>

#include "cases.h"

namespace unharmed {
namespace {

std::atomic<int> g_signals = 0;

}  // namespace

// Whoever waits for anybody at any time.
int wait_for_anybody() {
  std::atomic<bool> stop = false;
  std::atomic<int> strangers = 0;
  std::thread waits([&] {
    while (!stop) {
      int status = 0;
      strangers += waitpid(-1, &status, WNOHANG) > 0;
      siginfo_t info = {};
      strangers += waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0;
    }
  });
  calls(10);
  usleep(500'000);
  stop = true;
  waits.join();
  printf("%d\n", strangers.load());
  return 3;
}

// It takes in orphans, and says so before or after its first call.
int subreaper(bool called_before) {
  if (called_before) {
    calls(10);
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  calls(10);
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      usleep(100'000);
      _exit(0);
    }
    _exit(0);
  }
  int reaped = 0;
  while (wait(nullptr) > 0) {
    ++reaped;
  }
  printf("%d\n", reaped);
  return 3;
}

int ignores_children() {
  signal(SIGCHLD, SIG_IGN);
  calls(10);
  const pid_t child = fork();
  if (child == 0) {
    calls(10);
    _exit(0);
  }
  const pid_t gone = waitpid(child, nullptr, 0);
  printf("%d %d\n", gone < 0, errno == ECHILD);
  return 3;
}

// Any signal that comes is the job's business.
int waits_for_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  calls(10);
  constexpr timespec kLong = {1, 500'000'000};
  const int got = sigtimedwait(&all, nullptr, &kLong);
  printf("%d %d\n", got, errno);
  return 3;
}

int counts_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { ++g_signals; };
  for (int i = 1; i < NSIG; ++i) {
    sigaction(i, &action, nullptr);
  }
  calls(10);
  for (int i = 0; i < 12; ++i) {
    usleep(100'000);
  }
  printf("%d\n", g_signals.load());
  return 3;
}

int kills_its_group() {
  setpgid(0, 0);
  calls(1000);
  fflush(stdout);
  kill(0, SIGKILL);
  return 0;
}

// Parent and child end, the grandchild works, as daemons do.
int daemonizes(const char* folder) {
  calls(10);
  if (fork() != 0) {
    _exit(3);
  }
  setsid();
  if (fork() != 0) {
    _exit(0);
  }
  if (chdir("/") != 0) {
    _exit(1);
  }
  syscall(SYS_close_range, 0, ~0U, 0);
  open("/dev/null", O_RDWR);
  dup(0);
  dup(0);
  calls(1000);
  const std::string path = std::string(folder) + "/done";
  close(open(path.c_str(), O_RDWR | O_CREAT, 0600));
  _exit(0);
}

// A process that ends at once, by the ways that nobody can intercept.
int ends_by_system_call() {
  calls(100);
  printf("said\n");
  fflush(stdout);
  syscall(SYS_exit_group, 6);
  return 0;
}

int makes_processes_that_share_memory() {
  calls(10);
  int sum = 0;
  static char stack[65536];
  for (int i = 0; i < 20; ++i) {
    const pid_t child = clone(
        [](void*) {
          syscall(SYS_exit_group, 3);
          return 0;
        },
        stack + sizeof stack, CLONE_VM | SIGCHLD, nullptr);
    sum += wait_for(child);
    calls(10);
  }
  printf("%d\n", sum);
  return 3;
}

int closes_what_it_inherits() {
  calls(10);
  const pid_t child = fork();
  if (child == 0) {
    syscall(SYS_close_range, 3, ~0U, 0);
    calls(1000);
    _exit(4);
  }
  printf("%d\n", wait_for(child));
  return 3;
}

}  // namespace unharmed
