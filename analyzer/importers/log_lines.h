// Logs that are read line by line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/reader/result.h"

namespace traintrace {

// `Reader` has take(line, its number from 1), which gives the error if there is one, and finish().
// A last line without its end is left out: it may be cut.
template <class Reader>
Result<std::string> read_lines(std::string_view text, Reader reader) {
  uint64_t number = 0;
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    if (std::optional<ReadError> error = reader.take(text.substr(0, end), ++number)) {
      return *error;
    }
    text.remove_prefix(end + 1);
  }
  return std::move(reader).finish();
}

}  // namespace traintrace
