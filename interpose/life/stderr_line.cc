#include "interpose/life/stderr_line.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "interpose/base/bare_thread.h"
#include "interpose/base/files.h"
#include "interpose/base/futex.h"
#include "interpose/base/own_files.h"
#include "interpose/life/call_filters.h"
#include "interpose/record/clock.h"
#include "interpose/record/growth.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr int kMostLines = 8;
constexpr size_t kStackBytes = 8192;
constexpr uint64_t kMostNs = 1'000'000'000;
constexpr uint64_t kUnreadNs = 250'000'000;
// What a call that may not be recorded waits at most for the line that says why.
constexpr uint64_t kCallNs = 100'000'000;
constexpr uint64_t kSliceNs = 10'000'000;

enum LineState : uint32_t { kFree, kComposed, kQueued };

// `owner` is the process and the state: a forked child finds its parent's, which are not its own.
struct Line {
  uint64_t owner;
  uint32_t number;
  uint32_t bytes;
  char text[kMaxPath];
};
constinit Line g_lines[kMostLines] = {};
constinit uint32_t g_numbers = 0;

constinit uint32_t g_complained = 0;
constinit int32_t g_telling_in = 0;     // the process whose own thread has lines to compose
constinit uint32_t g_said = 0;          // futex: changes with each line
constinit int32_t g_own_thread_in = 0;  // the process whose own thread lets lines be written
constinit int32_t g_cannot_in = 0;      // and cannot, as it does not get stderr

// The one that writes.
constinit int32_t g_speaks_in = 0;
constinit int g_file = -1;
constinit bool g_borrowed = false;
alignas(16) constinit char g_stack[kStackBytes] = {};

// Started without it: what has that number now is a file of the job's.
constinit bool g_has_no_stderr = false;
constinit FileKind g_at_start = {};

[[gnu::constructor]] void look_for_stderr() {
  const int saved_errno = errno;
  g_has_no_stderr = fcntl(STDERR_FILENO, F_GETFD) < 0;
  g_at_start = kind_of_file(STDERR_FILENO, "");
  errno = saved_errno;
}

// A job that closes it and opens another gets the same number.
bool is_stderr(int file) {
  const FileKind kind = kind_of_file(file, "");
  return kind.inode == 0 || kind == g_at_start || S_ISCHR(kind.mode) || S_ISFIFO(kind.mode) ||
         (S_ISREG(kind.mode) && (fcntl(file, F_GETFL) & O_APPEND) != 0);
}

uint64_t owner(int32_t process, LineState state) {
  return (static_cast<uint64_t>(process) << 32) | state;
}

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

void compose(Line& line, const char* what) {
  constexpr char kCut[] = "..\n";
  Text text(line.text, sizeof line.text);
  text << "traintrace: ";
  add_harmless(text, what);
  text << "\n";
  if (!text.whole()) {
    memcpy(line.text + sizeof line.text - sizeof kCut, kCut, sizeof kCut);
  }
  line.bytes = static_cast<uint32_t>(text.length());
}

// Where all are taken nobody listens anyway.
void leave_line(int32_t process, const char* what) {
  for (Line& line : g_lines) {
    const uint64_t seen = load(line.owner);
    const bool free =
        static_cast<int32_t>(seen >> 32) != process || (seen & UINT32_MAX) == uint64_t{kFree};
    if (free && exchange_if(line.owner, seen, owner(process, kComposed))) {
      compose(line, what);
      line.number = fetch_add(g_numbers, 1U);
      publish(line.owner, owner(process, kQueued));
      return;
    }
  }
}

Line* oldest_line(int32_t process) {
  Line* oldest = nullptr;
  for (Line& line : g_lines) {
    if (load(line.owner) == owner(process, kQueued) &&
        (oldest == nullptr || static_cast<int32_t>(line.number - oldest->number) < 0)) {
      oldest = &line;
    }
  }
  return oldest;
}

void was_said(Line& line, int32_t process) {
  publish(line.owner, owner(process, kFree));
  fetch_add(g_said, 1U);
}

// As long as it takes; stderr may have been opened so that nobody waits for it.
void write_whole(int file, const char* text, size_t bytes) {
  while (bytes > 0) {
    const long written =
        bare_call(SYS_write, file, reinterpret_cast<long>(text), static_cast<long>(bytes));
    if (written > 0) {
      text += written;
      bytes -= static_cast<size_t>(written);
      continue;
    }
    pollfd ready = {file, POLLOUT, 0};
    const bool again =
        written == -EAGAIN && bare_call(SYS_ppoll, reinterpret_cast<long>(&ready), 1, 0, 0, 0) == 1;
    if (!again && written != -EINTR) {
      return;
    }
  }
}

// In the bare thread: SIGPIPE, where nobody reads any more, is sent to it and ends with it.
int speak(void* argument) {
  const auto process = static_cast<int32_t>(reinterpret_cast<intptr_t>(argument));
  while (Line* const line = oldest_line(process)) {
    write_whole(g_file, line->text, line->bytes);
    was_said(*line, process);
    bare_call(SYS_futex, reinterpret_cast<long>(&g_said), FUTEX_WAKE, INT_MAX);
  }
  if (g_borrowed) {
    bare_call(SYS_close, g_file, 0, 0);
  }
  return 0;  // the kernel takes g_speaks_in back
}

// Of a file it is not asked: who serves it may be gone.
bool is_writable(int file) {
  if (S_ISREG(kind_of_file(file, "").mode)) {
    return true;
  }
  pollfd standard = {file, POLLOUT, 0};
  return poll(&standard, 1, 0) == 1 && standard.revents == POLLOUT;
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

// Where no thread can be created for it: what can be written at once.
void write_here(int file, int32_t process) {
  while (Line* const line = oldest_line(process)) {
    if (is_writable(file)) {
      write_unharmed(file, line->text, line->bytes);
    }
    was_said(*line, process);
  }
}

// By whom lines are written, where a filter of system calls may forbid threads.
enum class Writer { kThread, kHere };

void drop_lines(int32_t process) {
  while (Line* const line = oldest_line(process)) {
    was_said(*line, process);
  }
}

// False: this thread cannot have it.
bool get_stderr() {
  g_borrowed = has_own_files();
  g_file = g_borrowed ? borrow_stderr() : STDERR_FILENO;
  return g_file >= 0 || errno == EBADF;
}

void let_speak_by(Writer writer, int32_t process) {
  const BareThread thread = {speak, reinterpret_cast<void*>(static_cast<intptr_t>(process)),
                             g_stack, sizeof g_stack, &g_speaks_in};
  const bool is_there = g_file >= 0 && is_stderr(g_file);
  if (is_there && writer == Writer::kThread && start_bare_thread(thread)) {
    return;  // which closes the file
  }
  if (is_there) {
    write_here(g_file, process);
  }
  drop_lines(process);
  if (g_borrowed && g_file >= 0) {
    close(g_file);
  }
  publish(g_speaks_in, 0);
}

// Unless there is nothing to say, or somebody does.
void let_speak(Writer writer) {
  const int32_t process = getpid();
  const int32_t speaks = load(g_speaks_in);
  if (oldest_line(process) == nullptr || speaks == process ||
      !exchange_if(g_speaks_in, speaks, process)) {
    return;
  }
  if (get_stderr()) {
    let_speak_by(writer, process);
  } else {
    publish(g_cannot_in, process);
    publish(g_speaks_in, 0);
  }
}

bool all_said(int32_t process) {
  return load(g_telling_in) != process && oldest_line(process) == nullptr;
}

// `kick` gets on with what is left, at once and again and again.
template <class Kick>
void wait_for_lines(int32_t process, uint64_t most_ns, Kick kick) {
  const uint64_t begun = nanoseconds(CLOCK_MONOTONIC);
  for (;;) {
    const uint32_t seen = load(g_said);
    if (all_said(process)) {
      return;
    }
    kick();
    if (nanoseconds(CLOCK_MONOTONIC) - begun >= most_ns || !futex_wait(&g_said, seen, kSliceNs)) {
      return;
    }
  }
}

uint64_t patience_at_exit() {
  return is_writable(STDERR_FILENO) ? kMostNs : kUnreadNs;
}

}  // namespace

void own_thread_says() noexcept {
  publish(g_cannot_in, 0);
  publish(g_own_thread_in, static_cast<int32_t>(getpid()));
}

void own_thread_says_no_more() noexcept {
  publish(g_own_thread_in, 0);
}

bool is_saying() noexcept {
  return load(g_speaks_in) == getpid();
}

void say_lines() noexcept {
  if (!call_filters_were_added() && load(g_cannot_in) != getpid()) {
    let_speak(Writer::kThread);
  }
}

void telling_begins() noexcept {
  publish(g_telling_in, static_cast<int32_t>(getpid()));
}

void telling_ends() noexcept {
  publish(g_telling_in, 0);
  fetch_add(g_said, 1U);
  futex_wake(&g_said);
}

void say(const char* what) noexcept {
  if (g_has_no_stderr) {
    return;
  }
  const int saved_errno = errno;
  const int32_t process = getpid();
  leave_line(process, what);
  if (load(g_own_thread_in) == process) {
    wake_own_thread();
  } else {
    // Nothing is recorded here, or not yet, so nobody may wait at the exit.
    const Writer writer = call_filters_since_load() ? Writer::kHere : Writer::kThread;
    wait_for_lines(process, kCallNs, [&] { let_speak(writer); });
  }
  errno = saved_errno;
}

void complain(const char* what) noexcept {
  if (__atomic_exchange_n(&g_complained, 1U, __ATOMIC_RELAXED) == 0) {
    say(what);
  }
}

void wait_a_little_until_said() noexcept {
  wait_for_lines(getpid(), kCallNs, say_lines);
}

void wait_until_said() noexcept {
  const int32_t process = getpid();
  if (g_has_no_stderr || all_said(process)) {
    return;
  }
  wait_for_lines(process, patience_at_exit(), [&] {
    const bool by_own_thread = load(g_own_thread_in) == process && load(g_cannot_in) != process &&
                               !call_filters_were_added();
    if (by_own_thread) {
      wake_own_thread();
    } else {
      let_speak(call_filters_were_added() ? Writer::kHere : Writer::kThread);
    }
  });
}

}  // namespace traintrace
