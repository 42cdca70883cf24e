#include "analyzer/exporters/pickle_writer.h"

#include <bit>
#include <cstdint>

namespace traintrace {
namespace {

// How many bytes the UTF-8 character at the beginning of `text` has; 0: it is none.
size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t bytes = first < 0x80   ? 1
                       : first < 0xc2 ? 0
                       : first < 0xe0 ? 2
                       : first < 0xf0 ? 3
                                      : 4;
  if (bytes == 0 || first > 0xf4 || text.size() < bytes) {
    return 0;
  }
  for (size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
      return 0;
    }
  }
  const auto second = bytes > 2 ? static_cast<unsigned char>(text[1]) : 0x80;
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return too_long || no_character ? 0 : bytes;
}

// Names in a trace may be any bytes, and readers stop at what is no UTF-8.
std::string readable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    result += bytes == 0 ? "?" : text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

}  // namespace

void PickleWriter::integer(int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX) {
    out_ += 'J';
    append(static_cast<uint64_t>(value), 4);
  } else {
    out_ += "\x8a\x08";
    append(static_cast<uint64_t>(value), 8);
  }
}

void PickleWriter::real(double value) {
  out_ += 'G';
  append(__builtin_bswap64(std::bit_cast<uint64_t>(value)), 8);
}

uint32_t PickleWriter::remember() {
  out_ += 'r';
  append(remembered_, 4);
  return remembered_++;
}

void PickleWriter::recall(uint32_t number) {
  const bool small = number < 256;
  out_ += small ? 'h' : 'j';
  append(number, small ? 1 : 4);
}

void PickleWriter::text(std::string_view text) {
  const auto [at, is_new] = memo_.try_emplace(std::string(text), remembered_);
  if (!is_new) {
    recall(at->second);
    return;
  }
  const std::string clean = readable(text);
  out_ += 'X';
  append(clean.size(), 4);
  out_ += clean;
  remember();
}

}  // namespace traintrace
