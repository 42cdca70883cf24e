#include "interpose/life/stderr_line.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "interpose/base/files.h"
#include "interpose/base/own_files.h"

namespace traintrace {
namespace {

constinit int g_complained = 0;

// Started without it: what has that number now is a file of the job's.
constinit bool g_has_no_stderr = false;

[[gnu::constructor]] void look_for_stderr() {
  const int saved_errno = errno;
  g_has_no_stderr = fcntl(STDERR_FILENO, F_GETFD) < 0;
  errno = saved_errno;
}

// A pipe that nobody reads any more would end the job by SIGPIPE, which is sent to the thread that
// writes: here it is blocked, and taken away again.
void write_unharmed(int file, const char* text, size_t bytes) {
  sigset_t pipe;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  if (pthread_sigmask(SIG_BLOCK, &pipe, &before) != 0) {
    return;
  }
  if (write(file, text, bytes) < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    constexpr timespec kNow = {0, 0};
    sigtimedwait(&pipe, nullptr, &kNow);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

namespace {

// What the own thread could not say: who exits does.
constinit uint32_t g_unsaid_state = 0;  // 1: being written, 2: there
constinit char g_unsaid[kMaxPath] = {};

// What others wrote - values of variables, paths - must neither move the cursor nor begin a line.
void add_harmless(Text& line, const char* text) {
  constexpr const char* kDigits = "0123456789abcdef";
  constexpr unsigned char kDelete = 0x7f;
  constexpr unsigned char kC1Lead = 0xc2;  // of U+0080 to U+009F in UTF-8
  constexpr unsigned char kC1Last = 0x9f;
  for (const auto* at = reinterpret_cast<const unsigned char*>(text); *at; ++at) {
    const bool is_c1 = *at == kC1Lead && at[1] >= 0x80 && at[1] <= kC1Last;
    if (*at < ' ' || *at == kDelete || is_c1) {
      at += is_c1 ? 1 : 0;
      const char escaped[] = {'\\', 'x', kDigits[*at / 16], kDigits[*at % 16]};
      line.append(escaped, sizeof escaped);
    } else {
      line.append(reinterpret_cast<const char*>(at), 1);
    }
  }
}

void keep_unsaid(const Text& line) {
  uint32_t expected = 0;
  if (__atomic_compare_exchange_n(&g_unsaid_state, &expected, 1U, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    memcpy(g_unsaid, line.c_str(), line.length() + 1);
    __atomic_store_n(&g_unsaid_state, 2U, __ATOMIC_RELEASE);
  }
}

void write_line(int file, const char* line) {
  pollfd standard = {file, POLLOUT, 0};
  if (poll(&standard, 1, 0) == 1 && standard.revents == POLLOUT) {  // somebody listens
    write_unharmed(file, line, strlen(line));
  }
}

}  // namespace

void say_unsaid() noexcept {
  uint32_t expected = 2;
  if (!g_has_no_stderr && __atomic_compare_exchange_n(&g_unsaid_state, &expected, 0U, false,
                                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    write_line(STDERR_FILENO, g_unsaid);
  }
}

void say(const char* what) noexcept {
  if (g_has_no_stderr) {
    return;
  }
  constexpr char kCut[] = "..\n";
  char storage[kMaxPath];
  Text line(storage, sizeof storage);
  line << "traintrace: ";
  add_harmless(line, what);
  line << "\n";
  if (!line.whole()) {
    memcpy(storage + sizeof storage - sizeof kCut, kCut, sizeof kCut);
  }
  if (!has_own_files()) {
    write_line(STDERR_FILENO, line.c_str());
    return;
  }
  const int borrowed = borrow_stderr();
  if (borrowed >= 0) {
    write_line(borrowed, line.c_str());
    close(borrowed);
  } else if (errno != EBADF) {
    keep_unsaid(line);
  }
}

void complain(const char* what) noexcept {
  if (__atomic_exchange_n(&g_complained, 1, __ATOMIC_RELAXED) == 0) {
    say(what);
  }
}

}  // namespace traintrace
