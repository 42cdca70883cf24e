// Strings and bytes of CPython.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "cpython/memory.h"
#include "cpython/runtime.h"

namespace traintrace {

inline constexpr uint64_t kMaxPythonTextLength = 1 << 20;
inline constexpr uint64_t kMaxPythonBytes = 1 << 26;

// A str: its characters lie in one array, 1, 2 or 4 bytes each.
struct PythonText {
  uint64_t data;
  uint64_t length;
  uint32_t width;
};

// The state of a str is bit fields: interned, kind (3 bits), compact, ascii.  `interned` takes 2
// bits, 8 in free-threaded builds, 16 in 3.14; the others cannot be 0, so only one reading fits.
// PythonBytes per character, and kPythonAscii; 0: not a state.
inline constexpr uint32_t kPythonAscii = 8;
inline uint32_t python_text_state(uint32_t state) {
  for (const int shift : {2, 8, 16}) {
    const uint32_t bits = state >> shift;
    const uint32_t width = bits & 7;
    const bool compact = (bits >> 3 & 1) != 0;
    const bool ascii = (bits >> 4 & 1) != 0;
    if (compact && (width == 1 || (!ascii && (width == 2 || width == 4)))) {
      return width | (ascii ? kPythonAscii : 0);
    }
  }
  return 0;
}

inline uint64_t python_characters(const PythonRuntime& python, uint64_t text, uint32_t kind) {
  const PythonObjectLayout& at = python.layout.object;
  return text + ((kind & kPythonAscii) != 0 ? at.text_ascii_data : at.text_other_data);
}

template <class Memory>
std::optional<PythonText> read_python_text(const PythonRuntime& python, uint64_t object,
                                           Memory& memory) {
  const PythonLayout& at = python.layout;
  uint64_t type = 0;
  uint32_t state = 0;
  PythonText text{};
  if (!plausible_address(object) || !memory.load(object + at.object.type, type) ||
      type != python.text_type || !memory.load(object + at.object.text_length, text.length) ||
      text.length > kMaxPythonTextLength || !memory.load(object + at.object.text_state, state)) {
    return std::nullopt;
  }
  const uint32_t kind = python_text_state(state);
  if (kind == 0) {
    return std::nullopt;
  }
  text.width = kind & ~kPythonAscii;
  text.data = python_characters(python, object, kind);
  return text;
}

// bytes: the line table.
struct PythonBytes {
  uint64_t data;
  uint64_t size;
};

template <class Memory>
std::optional<PythonBytes> read_python_bytes(const PythonRuntime& python, uint64_t object,
                                             Memory& memory) {
  uint64_t type = 0;
  PythonBytes bytes{object + python.layout.object.bytes_data, 0};
  if (!plausible_address(object) || !memory.load(object + python.layout.object.type, type) ||
      type != python.bytes_type || !memory.load(object + python.layout.object.size, bytes.size) ||
      bytes.size > kMaxPythonBytes) {
    return std::nullopt;
  }
  return bytes;
}

// Where the characters have been copied to this process, or are its own.
inline uint32_t python_character(const PythonText& text, uint64_t index) {
  const auto* data = reinterpret_cast<const uint8_t*>(text.data) + index * text.width;
  if (text.width == 1) {
    return *data;
  }
  if (text.width == 2) {
    uint16_t value;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
  uint32_t value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// What UTF-8 can say: surrogates stand for bytes of file names that are not UTF-8.
inline uint32_t printable(uint32_t point) {
  constexpr uint32_t kReplacement = 0xfffd;
  return (point >= 0xd800 && point < 0xe000) || point > 0x10ffff ? kReplacement : point;
}

inline size_t utf8_size(uint32_t point) {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

inline char* put_utf8(char* out, uint32_t point) {
  const size_t size = utf8_size(point);
  if (size == 1) {
    *out = static_cast<char>(point);
    return out + 1;
  }
  for (size_t i = size - 1; i > 0; --i) {
    out[i] = static_cast<char>(0x80 | (point & 0x3f));
    point >>= 6;
  }
  constexpr uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  *out = static_cast<char>(kLead[size] | point);
  return out + size;
}

}  // namespace traintrace
