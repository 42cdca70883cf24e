#include "analyzer/text/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace traintrace {
namespace {

ColourChoice chosen_colour = ColourChoice::kAuto;

// Narrower ones would get one word a line.
constexpr size_t kNarrowest = 40;
constexpr size_t kUsual = 80;

size_t columns_of_terminal() {
  if (const char* const told = std::getenv("COLUMNS")) {
    size_t columns = 0;
    if (std::from_chars(told, told + std::strlen(told), columns).ec == std::errc() && columns > 0) {
      return columns;
    }
  }
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

// Open MPI's mpirun gives each process a terminal without a size, and passes on what is written
// there: to a file as likely as to a person.
bool is_terminal() {
  winsize size = {};
  const bool is_sized = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return isatty(STDOUT_FILENO) != 0 && (is_sized || std::getenv("OMPI_COMM_WORLD_RANK") == nullptr);
}

bool wants_colour(bool terminal) {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  return terminal && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

// The console of Linux prints such sequences as they are.
bool takes_links() {
  const char* const term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "linux" && std::string_view(term) != "dumb";
}

// As a URL has it: a path may hold anything.
std::string percent_encoded(const std::string& path) {
  constexpr std::string_view kPlain = "/-._~";
  constexpr const char* kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && std::isalnum(byte) != 0) || kPlain.find(c) != kPlain.npos) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

// Behind the sequence that begins at `at`.
size_t end_of_sequence(std::string_view text, size_t at) {
  constexpr std::string_view kLinkEnd = "\x1b\\";
  const bool link = text.substr(at).starts_with("\x1b]");
  const size_t end = link ? text.find(kLinkEnd, at + 1) : text.find('m', at);
  return end == text.npos ? text.size() : end + (link ? kLinkEnd.size() : 1);
}

}  // namespace

void choose_colour(ColourChoice choice) {
  chosen_colour = choice;
}

Screen stdout_screen() {
  Screen screen;
  screen.terminal = is_terminal();
  screen.columns = screen.terminal ? std::max(columns_of_terminal(), kNarrowest) : 0;
  screen.colour = chosen_colour == ColourChoice::kAuto ? wants_colour(screen.terminal)
                                                       : chosen_colour == ColourChoice::kAlways;
  screen.links = screen.terminal && screen.colour && takes_links();
  return screen;
}

std::string painted(std::string_view text, Paint paint, const Screen& screen) {
  constexpr const char* kCodes[] = {"", "1", "1;31", "33", "32", "36", "2"};
  const char* const code = kCodes[static_cast<size_t>(paint)];
  return !screen.colour || *code == '\0' || text.empty()
             ? std::string(text)
             : "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string linked(const std::string& text, const std::string& file, int line,
                   const Screen& screen) {
  if (!screen.links || file.empty() || access(file.c_str(), F_OK) != 0) {
    return text;
  }
  char folder[4096] = {};
  const bool absolute = file.starts_with('/');
  if (!absolute && getcwd(folder, sizeof folder) == nullptr) {
    return text;
  }
  const std::string path = absolute ? file : std::string(folder) + "/" + file;
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string url = "file://" + percent_encoded(host) + percent_encoded(path);
  url += line > 0 ? "#" + std::to_string(line) : "";
  return "\x1b]8;;" + url + "\x1b\\" + text + "\x1b]8;;\x1b\\";
}

size_t width_of(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\x1b') {
      i = end_of_sequence(text, i);
    } else {
      width += (static_cast<unsigned char>(text[i++]) & 0xc0) != 0x80 ? 1 : 0;
    }
  }
  return width;
}

// A number and its unit stay together.
static bool is_unit(std::string_view word) {
  word = word.substr(0, word.find_last_not_of(".,;:)") + 1);
  constexpr std::string_view kUnits[] = {"s",   "ms",  "us",  "ns",  "%",    "bytes",
                                         "KiB", "MiB", "GiB", "TiB", "ranks"};
  return std::find(std::begin(kUnits), std::end(kUnits), word) != std::end(kUnits);
}

std::string wrapped(std::string_view first, std::string_view text, size_t indent,
                    const Screen& screen) {
  std::string out(first);
  if (screen.columns == 0) {
    return out + std::string(text) + '\n';
  }
  size_t used = width_of(out);
  bool begins = true;
  while (!text.empty()) {
    // A word with the blanks before it, which are kept unless the line ends there.
    const size_t word = std::min(text.find_first_not_of(' '), text.size());
    size_t end = std::min(text.find(' ', word), text.size());
    const size_t next_end =
        end == text.size() ? end : std::min(text.find(' ', end + 1), text.size());
    if (end < text.size() && is_unit(text.substr(end + 1, next_end - end - 1))) {
      end = next_end;
    }
    if (!begins && used + width_of(text.substr(0, end)) > screen.columns) {
      out += '\n' + std::string(indent, ' ');
      used = indent;
      text.remove_prefix(word);
      begins = true;
      continue;
    }
    out += text.substr(0, end);
    used += width_of(text.substr(0, end));
    text.remove_prefix(end);
    begins = false;
  }
  return out + '\n';
}

}  // namespace traintrace
