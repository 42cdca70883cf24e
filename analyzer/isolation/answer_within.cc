#include "analyzer/isolation/answer_within.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace traintrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kOnly = 3;  // descriptor of the child

// Nobody who reads what this program writes should wait for the child.
[[noreturn]] void answer(int to, const std::function<void(const Say&)>& ask) {
  if (dup2(to, kOnly) < 0 || fcntl(kOnly, F_SETFD, 0) < 0) {
    _exit(1);
  }
  close_range(kOnly + 1, UINT_MAX, 0);
  for (const int standard : {0, 1, 2}) {
    close(standard);
  }
  setsid();
  try {
    ask([](std::string_view text) {
      while (!text.empty()) {
        const ssize_t written = write(kOnly, text.data(), text.size());
        if (written <= 0) {
          _exit(1);
        }
        text.remove_prefix(static_cast<size_t>(written));
      }
    });
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

// Until the other end is closed.
bool read_until(Clock::time_point end, int from, Answer& answer) {
  auto last = Clock::now();
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd poller = {from, POLLIN, 0};
    const int ready = poll(&poller, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    answer.silent_for = Clock::now() - last;
    if (ready == 0) {
      return false;
    }
    char part[4096];
    const ssize_t got = ready < 0 ? -1 : read(from, part, sizeof part);
    if (got == 0) {
      return true;
    }
    if (got > 0) {
      answer.text.append(part, static_cast<size_t>(got));
      last = Clock::now();
    } else if (errno != EINTR) {
      return false;
    }
  }
}

}  // namespace

Answer answer_within(std::chrono::milliseconds limit, const std::function<void(const Say&)>& ask) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return {};
  }
  const auto end = Clock::now() + limit;
  const pid_t child = fork();
  if (child == 0) {
    answer(ends[1], ask);
  }
  close(ends[1]);
  Answer given;
  const bool has_ended = child > 0 && read_until(end, ends[0], given);
  close(ends[0]);
  if (child > 0) {
    int status = 0;
    if (!has_ended) {
      kill(child, SIGKILL);
    }
    const bool is_known = waitpid(child, &status, has_ended ? 0 : WNOHANG) == child;
    given.whole = has_ended && is_known && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return given;
}

}  // namespace traintrace
