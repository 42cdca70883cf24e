#include "analyzer/text/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace traintrace {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: that is no UTF-8
};

// The shortest form only, no surrogates, nothing beyond Unicode (RFC 3629).
Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint8_t first = byte(0);
  const size_t bytes = first < 0x80    ? 1
                       : first < 0xc2  ? 0
                       : first < 0xe0  ? 2
                       : first < 0xf0  ? 3
                       : first <= 0xf4 ? 4
                                       : 0;
  if (bytes == 0 || bytes > text.size() - at) {
    return {};
  }
  uint32_t code = bytes == 1 ? first : first & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return {};
    }
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kLeast[bytes] || is_surrogate || code > 0x10ffff ? Character{}
                                                                 : Character{code, bytes};
}

// Unicode's Bidi_Control, and what breaks or hides a line.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
         (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
         (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe007f);
}

void append_escaped(std::string& out, uint32_t code) {
  switch (code) {
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      break;
  }
  const auto at = std::back_inserter(out);
  code < 0x80      ? fmt::format_to(at, "\\x{:02x}", code)
  : code <= 0xffff ? fmt::format_to(at, "\\u{:04x}", code)
                   : fmt::format_to(at, "\\U{:08x}", code);
}

bool is_plain(char c) {
  return c >= 0x20 && c < 0x7f;
}

template <class Keep>
std::string escaped(std::string_view text, Keep keep) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    size_t plain = i;
    while (plain < text.size() && is_plain(text[plain])) {
      ++plain;
    }
    out.append(text, i, plain - i);
    i = plain;
    if (i == text.size()) {
      break;
    }
    const Character character = character_at(text, i);
    if (character.bytes == 0) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(text[i]));
      ++i;
      continue;
    }
    if (is_control(character.code) && !keep(character.code)) {
      append_escaped(out, character.code);
    } else {
      out.append(text, i, character.bytes);
    }
    i += character.bytes;
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  return escaped(text, [](uint32_t) { return false; });
}

std::string printable_lines(std::string_view text) {
  return escaped(text, [](uint32_t code) { return code == '\n' || code == '\t'; });
}

size_t harmless_bytes(std::string_view text, size_t at) {
  const Character character = character_at(text, at);
  return is_control(character.code) ? 0 : character.bytes;
}

// Beyond what JSON escapes by itself.
std::string printable_json(std::string json) {
  std::string out;
  size_t done = 0;
  for (size_t i = 0; i < json.size();) {
    const Character character = character_at(json, i);
    if (character.code >= 0x7f && is_control(character.code)) {
      out.append(json, done, i - done);
      if (character.code > 0xffff) {
        const uint32_t rest = character.code - 0x10000;
        fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10),
                       0xdc00 + (rest & 0x3ff));
      } else {
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", character.code);
      }
      done = i + character.bytes;
    }
    i += character.bytes == 0 ? 1 : character.bytes;
  }
  return done == 0 ? std::move(json) : out.append(json, done);
}

}  // namespace traintrace
