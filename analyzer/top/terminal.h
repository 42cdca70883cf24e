// A terminal that a picture is drawn on again and again, left as it was whatever ends that.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace traintrace {

enum class Key : uint8_t { kNone, kUp, kDown, kEnter, kEscape, kCharacter, kResized, kEnd };
struct KeyPress {
  Key key = Key::kNone;
  char character = 0;  // of kCharacter
};

class LiveTerminal {
 public:
  // Switches to the terminal's second screen.  stdin and stdout must be a terminal.
  LiveTerminal();
  LiveTerminal(const LiveTerminal&) = delete;
  LiveTerminal& operator=(const LiveTerminal&) = delete;
  ~LiveTerminal();

  // As the terminal is now.
  size_t columns() const;
  size_t lines() const;
  // Whether it shows more than ASCII, by the locale's name.
  bool utf8() const { return utf8_; }

  // No more than fits: the rest is left out.  Lines are not wrapped.
  void draw(const std::vector<std::string>& text);
  // The next key; kNone after `timeout`, kEnd after SIGINT, SIGTERM, SIGHUP or at the end of stdin.
  KeyPress wait(std::chrono::milliseconds timeout);
  // Gives the first screen back while something else writes to it, until resume().
  void pause();
  void resume();

 private:
  bool utf8_ = false;
};

// The first `columns` columns of a line, escape sequences of paint among them whole.
std::string cut_to(const std::string& line, size_t columns);

}  // namespace traintrace
