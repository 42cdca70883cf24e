// Logs that are read line by line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/reader/result.h"

namespace traintrace {

// The text after the byte order mark that editors and some tools put before UTF-8.  An error: it is
// UTF-16, as a redirection in Windows PowerShell writes it.
inline Result<std::string_view> utf8_text(std::string_view text, const std::string& file) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return ReadError{file, 1, "expected UTF-8, and this is UTF-16: iconv -f UTF-16 -t UTF-8", true};
  }
  text.remove_prefix(text.starts_with(kMark) ? kMark.size() : 0);
  return text;
}

// `Reader` has take(line, its number from 1), which gives the error if there is one, and finish().
// A last line without its end is left out: it may be cut.
template <class Reader>
Result<std::string> read_lines(std::string_view text, const std::string& file, Reader reader) {
  const Result<std::string_view> utf8 = utf8_text(text, file);
  if (!utf8) {
    return utf8.error();
  }
  text = *utf8;
  uint64_t number = 0;
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    if (std::optional<ReadError> error = reader.take(text.substr(0, end), ++number)) {
      return *error;
    }
    text.remove_prefix(end + 1);
  }
  return std::move(reader).finish();
}

// Calls function(line) for each line, without its end, until it gives false.
template <class Function>
void for_each_line(std::string_view bytes, Function&& function) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (!function(line)) {
      return;
    }
  }
}

}  // namespace traintrace
