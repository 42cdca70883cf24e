// Code objects: what is copied of them, and how they are told apart.
#include <cstring>
#include <optional>

#include "cpython/text.h"
#include "interpose/python_frames.h"
#include "interpose/python_memory.h"
#include "interpose/python_runtime.h"

namespace traintrace {
namespace {

constexpr uint16_t kNone = PythonLayout::kNone;
// Characters from `first` on as UTF-8, as many as there is room for; returns how many bytes.
size_t copy_utf8(const PythonText& text, uint64_t first, char* out, size_t room) {
  char* end = out;
  for (uint64_t i = first; i < text.length; ++i) {
    const uint32_t point = printable(python_character(text, i));
    if (static_cast<size_t>(end - out) + utf8_size(point) + 1 > room) {
      break;
    }
    end = put_utf8(end, point);
  }
  *end = '\0';
  return static_cast<size_t>(end - out);
}

// The end of a path says more than its beginning.
size_t copy_path(const PythonText& text, char* out, size_t room) {
  constexpr char kCut[] = "...";
  constexpr size_t kCutBytes = sizeof kCut - 1;
  size_t bytes = 0;
  uint64_t first = text.length;
  uint64_t first_after_cut = text.length;
  while (first > 0) {
    bytes += utf8_size(printable(python_character(text, first - 1)));
    if (bytes + 1 > room) {
      std::memcpy(out, kCut, kCutBytes);
      return kCutBytes + copy_utf8(text, first_after_cut, out + kCutBytes, room - kCutBytes);
    }
    --first;
    if (bytes + 1 + kCutBytes <= room) {
      first_after_cut = first;
    }
  }
  return copy_utf8(text, 0, out, room);
}

struct CodeParts {
  PythonText name;
  PythonText file;
  PythonBytes line_table;
  int32_t first_line;
};

std::optional<CodeParts> read_code(const PythonRuntime& python, uint64_t code) {
  const PythonLayout& at = python.layout;
  ProbedMemory memory;
  uint64_t type = 0;
  uint64_t name = 0;
  uint64_t file = 0;
  uint64_t table = 0;
  int32_t first_line = 0;
  if (!plausible_address(code) || !memory.load(code + at.object.type, type) ||
      type != python.code_type || !memory.load(code + at.code_name, name) ||
      !memory.load(code + at.code_file, file) || !memory.load(code + at.code_line_table, table) ||
      !memory.load(code + at.code_first_line, first_line)) {
    return std::nullopt;
  }
  const std::optional<PythonText> name_text = read_python_text(python, name, memory);
  const std::optional<PythonText> file_text = read_python_text(python, file, memory);
  const std::optional<PythonBytes> bytes = read_python_bytes(python, table, memory);
  if (!name_text || !file_text || !bytes ||
      !memory.readable(name_text->data, name_text->length * name_text->width) ||
      !memory.readable(file_text->data, file_text->length * file_text->width) ||
      !memory.readable(bytes->data, bytes->size)) {
    return std::nullopt;
  }
  return CodeParts{*name_text, *file_text, *bytes, first_line};
}

// Sums of products with odd numbers: they do not wait for each other, as links of a chain would.
class Key {
 public:
  void add(uint64_t value) {
    sum_ += value * factor_;
    factor_ += 2 * 0x9e3779b97f4a7c15;  // stays odd
  }

  uint64_t value() const { return (sum_ ^ sum_ >> 32) * 0x9e3779b97f4a7c15 | 1; }

 private:
  uint64_t sum_ = 0;
  uint64_t factor_ = 0xd6e8feb86659fd93;
};

uint64_t word_at(uint64_t address) {
  uint64_t word = 0;
  DirectMemory().load(address, word);
  return word;
}

// Size and end of the file's name, where generated names differ.
void add_file(const PythonRuntime& python, uint64_t text, Key& key) {
  const PythonObjectLayout& at = python.layout.object;
  DirectMemory memory;
  uint64_t length = 0;
  uint32_t state = 0;
  memory.load(text + at.text_length, length);
  memory.load(text + at.text_state, state);
  const uint32_t kind = python_text_state(state);
  const uint64_t bytes = length * (kind & ~kPythonAscii);
  key.add(bytes);
  if (bytes >= 8) {
    key.add(word_at(python_characters(python, text, kind) + bytes - 8));
  }
}

// Size and bytes of the line table: all of a short one, every so many of a long one, since a known
// stack must not cost more than its frames.
void add_line_table(const PythonRuntime& python, uint64_t table, Key& key) {
  constexpr uint64_t kWords = 8;
  const uint64_t size = word_at(table + python.layout.object.size);
  const uint64_t data = table + python.layout.object.bytes_data;
  key.add(size);
  if (size < 8) {
    // No object is so small that there are no 8 bytes.
    key.add(word_at(data) & ((uint64_t{1} << 8 * size) - 1));
    return;
  }
  const uint64_t last = size - 8;
  if (last < 8 * kWords) {
    for (uint64_t at = 0; at < last; at += 8) {
      key.add(word_at(data + at));
    }
  } else {
    for (uint64_t word = 0; word < kWords; ++word) {
      key.add(word_at(data + word * last / kWords));
    }
  }
  key.add(word_at(data + last));
}

}  // namespace

bool looks_like_python_code(const PythonRuntime& python, uint64_t code) noexcept {
  return read_code(python, code).has_value();
}

bool describe_python_code(uint64_t code, PythonCode& into) noexcept {
  const PythonRuntime* python = proven_python();
  const std::optional<CodeParts> parts =
      python == nullptr ? std::nullopt : read_code(*python, code);
  if (!parts) {
    return false;
  }
  into.qualname_bytes =
      static_cast<uint32_t>(copy_utf8(parts->name, 0, into.qualname, sizeof into.qualname));
  into.file_bytes = static_cast<uint32_t>(copy_path(parts->file, into.file, sizeof into.file));
  into.first_line = parts->first_line;
  into.minor = python->layout.minor;
  into.line_table = reinterpret_cast<const uint8_t*>(parts->line_table.data);
  into.line_table_bytes = parts->line_table.size;
  return true;
}

uint64_t python_code_key(uint64_t code) noexcept {
  const PythonRuntime* python = proven_python();
  if (python == nullptr) {
    return 1;
  }
  // The layout is proven and the code object alive, so its parts are what they must be.
  const PythonLayout& at = python->layout;
  DirectMemory memory;
  uint32_t version = 0;
  uint32_t first_line = 0;
  memory.load(code + at.code_first_line, first_line);
  if (at.code_version != kNone) {
    memory.load(code + at.code_version, version);
  }
  Key key;
  key.add(code);
  key.add(uint64_t{version} << 32 | first_line);
  key.add(word_at(code + at.code_file));
  key.add(word_at(code + at.code_name));
  if (version == 0) {
    const uint64_t table = word_at(code + at.code_line_table);
    key.add(table);
    add_file(*python, word_at(code + at.code_file), key);
    add_line_table(*python, table, key);
  }
  return key.value();
}

}  // namespace traintrace
