// Code objects: what is copied of them, and how they are told apart.
#include <cstring>
#include <optional>

#include "cpython/text.h"
#include "interpose/python/python_frames.h"
#include "interpose/python/python_memory.h"
#include "interpose/python/python_runtime.h"
#include "interpose/python/python_sampled.h"
#include "interpose/stacks/code_memo.h"

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

template <class Memory>
std::optional<CodeParts> read_parts(const PythonRuntime& python, uint64_t code, Memory& memory) {
  const PythonLayout& at = python.layout;
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
  if (!name_text || !file_text || !bytes) {
    return std::nullopt;
  }
  return CodeParts{*name_text, *file_text, *bytes, first_line};
}

std::optional<CodeParts> read_code(const PythonRuntime& python, uint64_t code) {
  ProbedMemory memory;
  std::optional<CodeParts> parts = read_parts(python, code, memory);
  const auto readable = [&](const PythonText& text) {
    return memory.readable(text.data, text.length * text.width);
  };
  return parts && readable(parts->name) && readable(parts->file) &&
                 memory.readable(parts->line_table.data, parts->line_table.size)
             ? parts
             : std::nullopt;
}

// To memory of ours.
bool bring(CopiedMemory& memory, uint64_t& data, size_t bytes, uint8_t* to, size_t room) {
  const uint64_t from = data;
  data = reinterpret_cast<uint64_t>(to);
  return bytes <= room && memory.copy(from, to, bytes);
}

void describe(const PythonRuntime& python, const CodeParts& parts, PythonCode& into) {
  into.qualname_bytes =
      static_cast<uint32_t>(copy_utf8(parts.name, 0, into.qualname, sizeof into.qualname));
  into.file_bytes = static_cast<uint32_t>(copy_path(parts.file, into.file, sizeof into.file));
  into.first_line = parts.first_line;
  into.minor = python.layout.minor;
  into.line_table = reinterpret_cast<const uint8_t*>(parts.line_table.data);
  into.line_table_bytes = parts.line_table.size;
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

// Of one code object; what cannot be read makes `is_whole` false.
template <class Memory>
class CodeKey {
 public:
  CodeKey(const PythonRuntime& python, Memory& memory) : python_(python), memory_(memory) {}

  uint64_t of(uint64_t code);
  bool is_whole() const { return whole_; }

 private:
  template <class T>
  T at(uint64_t address) {
    T value = 0;
    whole_ = memory_.load(address, value) && whole_;
    return value;
  }
  uint64_t word_at(uint64_t address) { return at<uint64_t>(address); }
  void add_file(uint64_t text);
  void add_line_table(uint64_t table);

  const PythonRuntime& python_;
  Memory& memory_;
  Key key_;
  bool whole_ = true;
};

// Size and end of the file's name, where generated names differ.
template <class Memory>
void CodeKey<Memory>::add_file(uint64_t text) {
  const PythonObjectLayout& layout = python_.layout.object;
  const auto length = word_at(text + layout.text_length);
  const uint32_t kind = python_text_state(at<uint32_t>(text + layout.text_state));
  const uint64_t bytes = length * (kind & ~kPythonAscii);
  key_.add(bytes);
  if (bytes >= 8) {
    key_.add(word_at(python_characters(python_, text, kind) + bytes - 8));
  }
}

template <class Memory>
void CodeKey<Memory>::add_line_table(uint64_t table) {
  const uint64_t size = word_at(table + python_.layout.object.size);
  const uint64_t data = table + python_.layout.object.bytes_data;
  key_.add(size);
  if (size < LineTableSample::kBlock) {
    for (uint64_t at = 0; at < size; ++at) {
      key_.add(this->at<uint8_t>(data + at));
    }
    return;
  }
  for (uint64_t block = 0; block < LineTableSample::kBlocks; ++block) {
    const uint64_t place = data + LineTableSample::place(block, size);
    key_.add(word_at(place));
    key_.add(word_at(place + 8));
  }
}

template <class Memory>
uint64_t CodeKey<Memory>::of(uint64_t code) {
  const PythonLayout& layout = python_.layout;
  const uint32_t version =
      layout.code_version == kNone ? 0 : at<uint32_t>(code + layout.code_version);
  key_.add(code);
  key_.add(uint64_t{version} << 32 | at<uint32_t>(code + layout.code_first_line));
  key_.add(word_at(code + layout.code_file));
  key_.add(word_at(code + layout.code_name));
  if (version == 0) {
    const uint64_t table = word_at(code + layout.code_line_table);
    key_.add(table);
    add_file(word_at(code + layout.code_file));
    add_line_table(table);
  }
  return key_.value();
}

template <class T = uint64_t>
T word_in_place(uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

// What is remembered of code whose words are read in place.  The offsets are copies: what is stored
// meanwhile cannot change them.
class RememberedCode {
 public:
  using Entry = CodeMemo::Entry;
  explicit RememberedCode(const PythonRuntime& python)
      : python_(python),
        at_(python.layout),
        has_version_(python.layout.code_version != PythonLayout::kNone) {}

  [[gnu::always_inline]] bool is(const Entry& entry, uint64_t code) const {
    const uint32_t version = this->version(code);
    uint64_t differs = entry.code ^ code;
    differs |= entry.file ^ word_in_place(code + at_.code_file);
    differs |= entry.name ^ word_in_place(code + at_.code_name);
    differs |= static_cast<uint32_t>(entry.first_line) ^
               word_in_place<uint32_t>(code + at_.code_first_line);
    differs |= entry.version ^ version;
    if (version != 0 || differs != 0) {
      return differs == 0;
    }
    return entry.table_address == word_in_place(code + at_.code_line_table) && has_file(entry) &&
           has_table(entry);
  }

  void put(Entry& entry, uint64_t code, uint64_t key) const {
    entry.code = 0;
    const uint64_t file = word_in_place(code + at_.code_file);
    const uint64_t table = word_in_place(code + at_.code_line_table);
    const auto state = word_in_place<uint32_t>(file + at_.object.text_state);
    const uint32_t kind = python_text_state(state);
    const uint64_t length = word_in_place(file + at_.object.text_length);
    const uint64_t bytes = length * (kind & ~kPythonAscii);
    const uint64_t table_size = word_in_place(table + at_.object.size);
    if (bytes < 8 || table_size > UINT32_MAX) {
      return;  // rare, and not worth a case
    }
    entry.file = file;
    entry.name = word_in_place(code + at_.code_name);
    entry.table_address = table;
    entry.version = version(code);
    entry.first_line = word_in_place<int32_t>(code + at_.code_first_line);
    entry.file_length = length;
    entry.file_state = state;
    entry.file_end = python_characters(python_, file, kind) + bytes - 8;
    entry.file_word = word_in_place(entry.file_end);
    entry.table_size = table_size;
    put_table(entry);
    entry.key = key;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    entry.code = code;
  }

 private:
  static constexpr uint64_t kBlock = LineTableSample::kBlock;
  static constexpr uint64_t kBlocks = LineTableSample::kBlocks;

  uint32_t version(uint64_t code) const {
    return has_version_ ? word_in_place<uint32_t>(code + at_.code_version) : 0;
  }
  bool has_file(const Entry& entry) const {
    return entry.file_length == word_in_place(entry.file + at_.object.text_length) &&
           entry.file_state == word_in_place<uint32_t>(entry.file + at_.object.text_state) &&
           entry.file_word == word_in_place(entry.file_end);
  }
  bool has_table(const Entry& entry) const {
    const uint64_t size = entry.table_size;
    const uint64_t data = entry.table_address + at_.object.bytes_data;
    if (size != word_in_place(entry.table_address + at_.object.size)) {
      return false;
    }
    if (size < kBlock) [[unlikely]] {
      return std::memcmp(reinterpret_cast<const void*>(data), entry.table.words, size) == 0;
    }
    using Block = uint64_t __attribute__((vector_size(kBlock)));
    Block differs = {};
#pragma GCC unroll 4
    for (uint64_t block = 0; block < kBlocks; ++block) {
      Block then;
      std::memcpy(&then, entry.table.words[block], sizeof then);
      differs |= then ^ word_in_place<Block>(data + entry.table_places[block]);
    }
    return (differs[0] | differs[1]) == 0;
  }
  void put_table(Entry& entry) const {
    const auto* const data =
        reinterpret_cast<const char*>(entry.table_address + at_.object.bytes_data);
    if (entry.table_size < kBlock) {
      std::memcpy(entry.table.words, data, entry.table_size);
      return;
    }
    for (uint64_t block = 0; block < kBlocks; ++block) {
      const uint64_t place = LineTableSample::place(block, entry.table_size);
      entry.table_places[block] = static_cast<uint32_t>(place);
      std::memcpy(entry.table.words[block], data + place, kBlock);
    }
  }

  const PythonRuntime& python_;
  const PythonLayout at_;
  const bool has_version_;
};

}  // namespace

bool looks_like_python_code(const PythonRuntime& python, uint64_t code) noexcept {
  return read_code(python, code).has_value();
}

bool describe_python_code(uint64_t code, PythonCode& into) noexcept {
  const PythonRuntime* python = proven_python();
  const std::optional<CodeParts> parts =
      python == nullptr ? std::nullopt : read_code(*python, code);
  if (parts) {
    describe(*python, *parts, into);
  }
  return parts.has_value();
}

bool describe_sampled_code(uint64_t code, CopiedMemory& memory, SampledText& text,
                           PythonCode& into) noexcept {
  const PythonRuntime* python = known_python();
  std::optional<CodeParts> parts =
      python == nullptr ? std::nullopt : read_parts(*python, code, memory);
  if (!parts ||
      !bring(memory, parts->name.data, parts->name.length * parts->name.width, text.name,
             sizeof text.name) ||
      !bring(memory, parts->file.data, parts->file.length * parts->file.width, text.file,
             sizeof text.file) ||
      !bring(
          memory, parts->line_table.data,
          parts->line_table.size < sizeof text.lines ? parts->line_table.size : sizeof text.lines,
          text.lines, sizeof text.lines)) {
    return false;
  }
  describe(*python, *parts, into);
  return true;
}

uint64_t python_code_key(uint64_t code) noexcept {
  const PythonRuntime* python = proven_python();
  if (python == nullptr) {
    return 1;
  }
  // The layout is proven and the code object alive, so its parts are what they must be.
  DirectMemory memory;
  return CodeKey(*python, memory).of(code);
}

// Apart, so that what is known finds all registers free.
[[gnu::noinline, gnu::cold]] static uint64_t learn(const PythonRuntime& python, uint64_t code,
                                                   CodeMemo::Entry& entry) {
  const uint64_t key = python_code_key(code);
  RememberedCode(python).put(entry, code, key);
  return key;
}

void python_code_keys(const PythonFrame* frames, size_t count, CodeMemo& memo,
                      uint64_t* keys) noexcept {
  const PythonRuntime* python = known_python();
  if (python == nullptr) {
    for (size_t i = 0; i < count; ++i) {
      keys[i] = python_code_key(frames[i].code);
    }
    return;
  }
  const RememberedCode remembered(*python);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t code = frames[i].code;
    CodeMemo::Entry& entry = memo.of(code);
    keys[i] = remembered.is(entry, code) ? entry.key : learn(*python, code, entry);
  }
}

uint64_t sampled_code_key(uint64_t code, CopiedMemory& memory) noexcept {
  const PythonRuntime* python = known_python();
  if (python == nullptr) {
    return 0;
  }
  CodeKey key(*python, memory);
  const uint64_t value = key.of(code);
  return key.is_whole() ? value : 0;
}

}  // namespace traintrace
