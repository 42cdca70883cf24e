#include "analyzer/commands/launch/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "analyzer/commands/command.h"

namespace traintrace {
namespace {

constexpr int kHandedOn[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

sigset_t signals_to_wait_for() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int signal : kHandedOn) {
    sigaddset(&set, signal);
  }
  return set;
}

[[noreturn]] void become(const std::vector<std::string>& program, const sigset_t& mask,
                         int report) {
  std::vector<char*> arguments;
  arguments.reserve(program.size() + 1);
  for (const std::string& argument : program) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvp(arguments[0], arguments.data());
  const int problem = errno;
  (void)!write(report, &problem, sizeof problem);
  _exit(127);
}

// 0: it was started, as the pipe was closed by a successful exec.
int start_problem(int report) {
  int problem = 0;
  ssize_t got = 0;
  do {
    got = read(report, &problem, sizeof problem);
  } while (got < 0 && errno == EINTR);
  return got == sizeof problem ? problem : 0;
}

int wait_for(pid_t child, const sigset_t& signals) {
  while (true) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    siginfo_t info = {};
    const int signal = sigwaitinfo(&signals, &info);
    // What the terminal sends it sends to the child too: to hand it on would send it twice.
    if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) {
      kill(child, signal);
    }
  }
}

}  // namespace

int run_child(const std::vector<std::string>& program) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    return fail(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  // Blocked before there is a child, so that none gets lost.
  const sigset_t signals = signals_to_wait_for();
  sigset_t mask;
  sigprocmask(SIG_BLOCK, &signals, &mask);
  const pid_t child = fork();
  if (child < 0) {
    return fail(std::string("cannot fork: ") + std::strerror(errno));
  }
  if (child == 0) {
    become(program, mask, report[1]);
  }
  close(report[1]);
  const int problem = start_problem(report[0]);
  close(report[0]);
  const int status = wait_for(child, signals);
  if (problem != 0) {
    fail("cannot run " + program[0] + ": " + std::strerror(problem));
    return problem == ENOENT ? 127 : 126;
  }
  return status;
}

}  // namespace traintrace
