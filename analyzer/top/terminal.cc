#include "analyzer/top/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace traintrace {
namespace {

// What signal handlers may touch.
termios usual = {};              // as the terminal was
volatile sig_atomic_t ours = 0;  // 1: our screen is on it
volatile sig_atomic_t end_signal = 0;
volatile sig_atomic_t resized = 0;

constexpr std::string_view kBegin = "\x1b[?1049h\x1b[?25l\x1b[2J";  // second screen, no cursor
constexpr std::string_view kEnd = "\x1b[0m\x1b[?25h\x1b[?1049l";

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return;  // the terminal is gone: reading it will say so
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
}

void take_screen() {
  termios raw = usual;
  raw.c_lflag &=
      ~static_cast<tcflag_t>(ICANON | ECHO);  // ISIG stays: Ctrl-C and Ctrl-Z are signals
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_all(kBegin);
  ours = 1;
}

void give_screen_back() {
  if (ours != 0) {
    ours = 0;
    write_all(kEnd);
    tcsetattr(STDIN_FILENO, TCSANOW, &usual);
  }
}

void on_end(int signal) {
  end_signal = signal;
}

void on_resize(int) {
  resized = 1;
}

// Ctrl-Z: the shell gets its terminal as it was, and we draw anew when we go on.
void on_stop(int) {
  const int saved = errno;
  const bool had = ours != 0;
  give_screen_back();
  std::signal(SIGTSTP, SIG_DFL);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  std::raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // here it stops, until SIGCONT
  struct sigaction again = {};
  again.sa_handler = on_stop;
  sigaction(SIGTSTP, &again, nullptr);
  if (had) {
    take_screen();
  }
  resized = 1;
  errno = saved;
}

// What would end us at once must not leave the terminal in our hands.
void on_crash(int signal) {
  give_screen_back();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);  // without SA_RESTART: poll returns
}

winsize size_now() {
  winsize size = {};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  return size;
}

bool locale_is_utf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      return strcasestr(value, "utf-8") != nullptr || strcasestr(value, "utf8") != nullptr;
    }
  }
  return false;
}

}  // namespace

LiveTerminal::LiveTerminal() : utf8_(locale_is_utf8()) {
  tcgetattr(STDIN_FILENO, &usual);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    handle(signal, on_end);
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
    handle(signal, on_crash);
  }
  handle(SIGWINCH, on_resize);
  handle(SIGTSTP, on_stop);
  take_screen();
}

LiveTerminal::~LiveTerminal() {
  give_screen_back();
}

size_t LiveTerminal::columns() const {
  constexpr size_t kUsual = 80;
  const size_t columns = size_now().ws_col;
  return columns == 0 ? kUsual : columns;
}

size_t LiveTerminal::lines() const {
  constexpr size_t kUsual = 24;
  const size_t lines = size_now().ws_row;
  return lines == 0 ? kUsual : lines;
}

std::string cut_to(const std::string& line, size_t columns) {
  std::string out;
  size_t used = 0;
  for (size_t i = 0; i < line.size();) {
    if (line[i] == '\x1b') {
      const size_t end = std::min(line.find('m', i), line.size() - 1) + 1;
      out += line.substr(i, end - i);
      i = end;
      continue;
    }
    size_t end = i + 1;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) {
      ++end;
    }
    if (used < columns) {
      out += line.substr(i, end - i);
      ++used;
    }
    i = end;
  }
  return out;
}

void LiveTerminal::draw(const std::vector<std::string>& text) {
  const size_t wide = columns();
  const size_t tall = lines();
  std::string out = "\x1b[H";
  for (size_t i = 0; i < std::min(text.size(), tall); ++i) {
    // The rest of each line is cleared, and no line break follows the last: nothing scrolls.
    out += (i == 0 ? "" : "\n") + cut_to(text[i], wide) + "\x1b[0m\x1b[K";
  }
  write_all(out + "\x1b[J");
}

KeyPress LiveTerminal::wait(std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (end_signal != 0) {
      return {Key::kEnd, 0};
    }
    if (resized != 0) {
      resized = 0;
      return {Key::kResized, 0};
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd ready = {STDIN_FILENO, POLLIN, 0};
    const int polled = ::poll(&ready, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (polled == 0) {
      return {};
    }
    if (polled < 0) {
      continue;  // a signal: see above
    }
    char bytes[8] = {};
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got <= 0) {
      if (got < 0 && errno == EINTR) {
        continue;
      }
      return {Key::kEnd, 0};
    }
    const std::string_view keys(bytes, static_cast<size_t>(got));
    if (keys.starts_with("\x1b[A") || keys.starts_with("\x1bOA")) {
      return {Key::kUp, 0};
    }
    if (keys.starts_with("\x1b[B") || keys.starts_with("\x1bOB")) {
      return {Key::kDown, 0};
    }
    if (keys[0] == '\x1b') {
      return {keys.size() == 1 ? Key::kEscape : Key::kNone, 0};
    }
    if (keys[0] == '\r' || keys[0] == '\n') {
      return {Key::kEnter, 0};
    }
    return {Key::kCharacter, keys[0]};
  }
}

void LiveTerminal::pause() {
  give_screen_back();
}

void LiveTerminal::resume() {
  take_screen();
}

}  // namespace traintrace
