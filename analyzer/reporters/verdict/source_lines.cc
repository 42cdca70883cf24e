#include "analyzer/reporters/verdict/source_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace traintrace {
namespace {

constexpr off_t kLargest = 4 << 20;
constexpr size_t kLongestLine = 400;

bool is_source(std::string_view file) {
  constexpr std::string_view kEndings[] = {".py", ".c",   ".cc",  ".cpp", ".cxx", ".cu",
                                           ".h",  ".hpp", ".cuh", ".jl",  ".rs",  ".pyx"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return file.ends_with(ending); });
}

TimeNs changed(const struct stat& status) {
  return TimeNs{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// Nothing if the file is not the one that ran.
std::string text_of(const std::string& path, TimeNs run_start) {
  // NOFOLLOW: what is called train.py and is a link may lead to anything.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    return "";
  }
  struct stat status = {};
  std::string text;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= kLargest &&
      changed(status) <= run_start) {
    text.resize(static_cast<size_t>(status.st_size));
    const ssize_t size = read(file, text.data(), text.size());
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  }
  close(file);
  return text;
}

}  // namespace

std::vector<SourceLine> source_lines(const CodePlace& place, TimeNs run_start, int around) {
  std::vector<SourceLine> lines;
  if (place.line <= 0 || !is_source(place.file)) {
    return lines;
  }
  const std::string text = text_of(place.file, run_start);
  size_t begin = 0;
  for (int number = 1; begin < text.size() && number <= place.line + around; ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (number >= place.line - around) {
      std::string line = text.substr(begin, std::min(end - begin, kLongestLine));
      std::replace(line.begin(), line.end(), '\t', ' ');
      lines.push_back({number, std::move(line), number == place.line});
    }
    begin = end + 1;
  }
  const bool has_it =
      std::any_of(lines.begin(), lines.end(), [](const SourceLine& line) { return line.marked; });
  return has_it ? lines : std::vector<SourceLine>();
}

std::string short_path(const std::string& path) {
  std::error_code none;
  const std::string here = std::filesystem::current_path(none).string() + '/';
  return !none && here.size() > 2 && path.starts_with(here) ? path.substr(here.size()) : path;
}

}  // namespace traintrace
