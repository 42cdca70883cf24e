#include "analyzer/text/shell_word.h"

#include <algorithm>
#include <string_view>

namespace traintrace {

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("/._-+:,=@").find(c) != std::string_view::npos;
  });
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return plain ? word : quoted + "'";
}

}  // namespace traintrace
