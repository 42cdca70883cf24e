#include "interpose/stderr_line.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/files.h"

namespace traintrace {
namespace {

constinit int g_complained = 0;

// A pipe that nobody reads any more would end the job by SIGPIPE, which is sent to the thread that
// writes: here it is blocked, and taken away again.
void write_unharmed(const char* text, size_t bytes) {
  sigset_t pipe;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  if (pthread_sigmask(SIG_BLOCK, &pipe, &before) != 0) {
    return;
  }
  if (write(STDERR_FILENO, text, bytes) < 0 && errno == EPIPE &&
      sigismember(&pending, SIGPIPE) == 0) {
    constexpr timespec kNow = {0, 0};
    sigtimedwait(&pipe, nullptr, &kNow);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void say(const char* what) noexcept {
  ShortText line;
  line << "traintrace: " << what << "\n";
  pollfd standard = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&standard, 1, 0) == 1 && standard.revents == POLLOUT) {  // somebody listens
    write_unharmed(line.c_str(), line.length());
  }
}

void complain(const char* what) noexcept {
  if (__atomic_exchange_n(&g_complained, 1, __ATOMIC_RELAXED) == 0) {
    say(what);
  }
}

}  // namespace traintrace
