#include "interpose/stderr_line.h"

#include <poll.h>
#include <unistd.h>

#include "interpose/files.h"

namespace traintrace {
namespace {

constinit int g_complained = 0;

}  // namespace

void say(const char* what) noexcept {
  ShortText line;
  line << "traintrace: " << what << "\n";
  pollfd standard = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&standard, 1, 0) != 1 || (standard.revents & POLLOUT) == 0 ||
      write(STDERR_FILENO, line.c_str(), line.length()) < 0) {
    return;  // nobody listens
  }
}

void complain(const char* what) noexcept {
  if (__atomic_exchange_n(&g_complained, 1, __ATOMIC_RELAXED) == 0) {
    say(what);
  }
}

}  // namespace traintrace
