#include "interpose/life/on_abort.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "interpose/base/files.h"
#include "interpose/keeper/detached_program.h"
#include "interpose/life/facts.h"
#include "interpose/record/clock.h"

namespace traintrace {
namespace {

constexpr uint64_t kPatienceNs = 5'000'000'000;

constinit char g_program[kMaxPath] = {};  // empty: nothing is to be started
constinit char g_folder[kMaxPath] = {};
constinit pid_t g_done_in = 0;

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
    // The end of the pipe that the program has tells, by closing, that it has ended.
    const bool started = start_detached({g_program, arguments, ends[1]});
    syscall(SYS_close, ends[1]);
    if (started) {
      wait_for_end(ends[0]);
    }
    syscall(SYS_close, ends[0]);
  }
  errno = saved_errno;
}

}  // namespace traintrace
