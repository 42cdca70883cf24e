// The terminal that a person looks at, and lines that fit into it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace traintrace {

enum class ColourChoice : uint8_t { kAuto, kAlways, kNever };  // --color

struct Screen {
  bool terminal = false;  // else a file or a pipe: nothing is wrapped
  size_t columns = 0;     // 0: lines may be of any length
  bool colour = false;
  bool links = false;  // names of files can be made links
};

// What --color of this command line says; kAuto if it has none.
void choose_colour(ColourChoice choice);
// Of stdout.  On a terminal COLUMNS comes before what the terminal says of itself.
Screen stdout_screen();

enum class Paint : uint8_t { kPlain, kBold, kRed, kYellow, kGreen, kCyan, kQuiet };
std::string painted(std::string_view text, Paint paint, const Screen& screen);

// `text` as a link (OSC 8) to line `line` of that file, where the terminal takes links and the file
// is on this machine; else as it is.
std::string linked(const std::string& text, const std::string& file, int line,
                   const Screen& screen);

// Columns that valid UTF-8 without control characters takes, with each character as one; escape
// sequences of painted() and linked() take none.
size_t width_of(std::string_view text);

// Lines of at most `screen.columns`, cut at blanks: the first behind `first`, the others behind as
// many blanks as `indent`.
std::string wrapped(std::string_view first, std::string_view text, size_t indent,
                    const Screen& screen);

}  // namespace traintrace
