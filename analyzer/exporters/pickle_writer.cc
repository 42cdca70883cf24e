#include "analyzer/exporters/pickle_writer.h"

#include <cstdint>

namespace traintrace {

void PickleWriter::integer(int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX) {
    out_ += 'J';
    append(static_cast<uint64_t>(value), 4);
  } else {
    out_ += "\x8a\x08";
    append(static_cast<uint64_t>(value), 8);
  }
}

void PickleWriter::text(std::string_view text) {
  const auto [at, is_new] = memo_.try_emplace(std::string(text), memo_.size());
  if (!is_new) {
    out_ += 'j';
    append(at->second, 4);
    return;
  }
  out_ += 'X';
  append(text.size(), 4);
  out_ += text;
  out_ += 'r';
  append(at->second, 4);
}

}  // namespace traintrace
