#include "analyzer/reader/sections/definitions.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "analyzer/python_lines.h"

namespace traintrace {
namespace {

using Bytes = std::span<const std::byte>;

// The longest name that makes sense.  A stack repeats the names of its frames, so that a small
// hostile file could grow large otherwise; so does `kMostText` hold them all together.
constexpr size_t kLongestName = 4096;
constexpr size_t kLongestRangeName = 512;  // each record of it may be printed with it
constexpr uint64_t kMostText = uint64_t{1} << 28;

struct PythonCode {
  int minor = 0;
  int first_line = 0;
  std::string function;
  std::string file;
  std::vector<uint8_t> line_table;
};

struct RawStack {
  uint32_t id;
  std::vector<format::PythonFrame> python;
  std::vector<uint64_t> native;
};

// The variable parts behind a definition's fixed one.
class Parts {
 public:
  explicit Parts(Bytes bytes) : rest_(bytes) {}
  std::string text(uint32_t bytes) {
    const Bytes part = take(bytes);
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  }
  Bytes take(uint64_t bytes) {
    whole_ = whole_ && bytes <= rest_.size();
    const Bytes part = rest_.first(whole_ ? bytes : 0);
    rest_ = rest_.subspan(part.size());
    return part;
  }
  template <class T>
  std::vector<T> array(uint32_t count) {
    const Bytes part = take(uint64_t{count} * sizeof(T));
    std::vector<T> values(part.size() / sizeof(T));
    std::copy(part.begin(), part.end(), reinterpret_cast<std::byte*>(values.data()));
    return values;
  }
  bool whole() const { return whole_; }

 private:
  Bytes rest_;
  bool whole_ = true;
};

class DefinitionReader {
 public:
  explicit DefinitionReader(ReadContext& context) : context_(context), trace_(context.trace) {}

  void read_all(const format::Section& section) {
    const uint64_t count = section.bytes / section.element_bytes;
    std::vector<std::byte> chunk(section.element_bytes);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t offset = section.offset + i * section.element_bytes;
      read_chunk(offset, chunk);
    }
    resolve_stacks();
    std::sort(trace_.modules.begin(), trace_.modules.end(),
              [](const ModuleText& a, const ModuleText& b) {
                return std::tie(a.begin, a.path) < std::tie(b.begin, b.path);
              });
  }

 private:
  void read_chunk(uint64_t offset, std::vector<std::byte>& chunk) {
    constexpr size_t kHead = sizeof(format::DefinitionChunk);
    std::byte head_bytes[kHead];
    if (chunk.size() < kHead || context_.file.read(offset, head_bytes) < kHead) {
      return;
    }
    const auto head = value_from<format::DefinitionChunk>(head_bytes);
    if (head.ordinal == 0) {
      return;
    }
    if (head.committed > chunk.size() - kHead) {
      complain(offset, "definitions that fit their chunk, found " + std::to_string(head.committed) +
                           " bytes");
    }
    const size_t bytes = std::min<size_t>(head.committed, chunk.size() - kHead);
    const size_t got = context_.file.read(offset + kHead, std::span(chunk).first(bytes));
    read_definitions_of(Bytes(chunk).first(got), offset + kHead);
  }

  void read_definitions_of(Bytes bytes, uint64_t offset) {
    while (bytes.size() >= sizeof(format::DefinitionHead)) {
      const auto head = value_from<format::DefinitionHead>(bytes);
      if (head.bytes < sizeof head || head.bytes % 8 != 0 || head.bytes > bytes.size()) {
        complain(offset, "a definition of 8 to " + std::to_string(bytes.size()) + " bytes, found " +
                             std::to_string(head.bytes));
        return;
      }
      if (!read_one(head.kind, bytes.first(head.bytes))) {
        complain(offset,
                 "the parts of a definition within its " + std::to_string(head.bytes) + " bytes");
      }
      bytes = bytes.subspan(head.bytes);
      offset += head.bytes;
    }
  }

  bool read_one(uint32_t kind, Bytes bytes) {
    switch (kind) {
      case format::kModule:
        return read_module(bytes);
      case format::kPythonCode:
        return read_python_code(bytes);
      case format::kStack:
        return read_stack(bytes);
      case format::kKernel:
        return read_kernel(bytes);
      case format::kFact:
        return read_fact(bytes);
      case format::kRangeName:
        return read_range_name(bytes);
      default:
        return true;
    }
  }

  template <class T>
  static Parts behind(Bytes bytes) {
    return Parts(bytes.subspan(std::min(bytes.size(), sizeof(T))));
  }

  bool read_module(Bytes bytes) {
    const auto definition = value_from<format::ModuleDefinition>(bytes);
    Parts parts = behind<format::ModuleDefinition>(bytes);
    ModuleText module{definition.begin, definition.end, definition.bias, "", ""};
    for (const std::byte byte : parts.take(definition.build_id_bytes)) {
      module.build_id += "0123456789abcdef"[static_cast<int>(byte) / 16];
      module.build_id += "0123456789abcdef"[static_cast<int>(byte) % 16];
    }
    module.path = parts.text(definition.path_bytes);
    if (parts.whole()) {
      trace_.modules.push_back(std::move(module));
    }
    return parts.whole();
  }

  bool read_python_code(Bytes bytes) {
    const auto definition = value_from<format::PythonCodeDefinition>(bytes);
    Parts parts = behind<format::PythonCodeDefinition>(bytes);
    PythonCode code{static_cast<int>(definition.minor), definition.first_line, {}, {}, {}};
    code.function = parts.text(definition.name_bytes).substr(0, kLongestName);
    code.file = parts.text(definition.file_bytes).substr(0, kLongestName);
    code.line_table = parts.array<uint8_t>(definition.line_table_bytes);
    if (parts.whole()) {
      codes_[definition.id] = std::move(code);
    }
    return parts.whole();
  }

  bool read_stack(Bytes bytes) {
    const auto definition = value_from<format::StackDefinition>(bytes);
    Parts parts = behind<format::StackDefinition>(bytes);
    RawStack stack{definition.id, parts.array<format::PythonFrame>(definition.python_frames),
                   parts.array<uint64_t>(definition.native_frames)};
    if (parts.whole() && stack.id != 0) {
      stacks_.push_back(std::move(stack));
    }
    return parts.whole() && definition.id != 0;
  }

  bool read_kernel(Bytes bytes) {
    const auto definition = value_from<format::KernelDefinition>(bytes);
    Parts parts = behind<format::KernelDefinition>(bytes);
    std::string name = parts.text(definition.name_bytes);
    if (parts.whole()) {
      trace_.kernels[definition.function] = std::move(name);
    }
    return parts.whole();
  }

  bool read_fact(Bytes bytes) {
    const auto definition = value_from<format::FactDefinition>(bytes);
    Parts parts = behind<format::FactDefinition>(bytes);
    std::string key = parts.text(definition.key_bytes);
    std::string value = parts.text(definition.value_bytes);
    if (parts.whole()) {
      trace_.facts[std::move(key)] = std::move(value);
    }
    return parts.whole();
  }

  bool read_range_name(Bytes bytes) {
    const auto definition = value_from<format::RangeNameDefinition>(bytes);
    Parts parts = behind<format::RangeNameDefinition>(bytes);
    RangeNameText range;
    range.domain = parts.text(definition.domain_bytes).substr(0, kLongestRangeName);
    range.name = parts.text(definition.name_bytes).substr(0, kLongestRangeName);
    if (parts.whole() && definition.id != 0) {
      trace_.ranges[definition.id] = std::move(range);
    }
    return parts.whole() && definition.id != 0;
  }

  // When all codes are known: a stack may come before the code of its frames.
  void resolve_stacks() {
    for (RawStack& stack : stacks_) {
      StackText& text = trace_.stacks[stack.id];
      for (const format::PythonFrame& frame : stack.python) {
        text.python.push_back(resolved(frame));
        text_bytes_ += text.python.back().function.size() + text.python.back().file.size();
      }
      text.native = std::move(stack.native);
    }
    if (text_bytes_ > kMostText) {
      complain(0, "stacks with fewer names");
    }
  }

  PythonFrameText resolved(const format::PythonFrame& frame) const {
    const auto found = codes_.find(frame.code);
    if (found == codes_.end() || text_bytes_ > kMostText) {
      return {"code#" + std::to_string(frame.code), "", 0};
    }
    const PythonCode& code = found->second;
    const auto line = python_line(code.minor, code.first_line, code.line_table, frame.instruction);
    return {code.function, code.file, std::max(line.value_or(0), 0)};
  }

  void complain(uint64_t offset, std::string expectation) {
    constexpr size_t kMostComplaints = 20;  // one broken chunk is enough to know
    if (++complaints_ <= kMostComplaints) {
      trace_.errors.push_back(context_.file.error(offset, "expected " + std::move(expectation)));
    }
  }

  ReadContext& context_;
  ProcessTrace& trace_;
  std::unordered_map<uint32_t, PythonCode> codes_;
  std::vector<RawStack> stacks_;
  uint64_t text_bytes_ = 0;
  size_t complaints_ = 0;
};

}  // namespace

void read_definitions(ReadContext& context) {
  if (const format::Section* section = context.layout.section(format::kDefinitions)) {
    DefinitionReader(context).read_all(*section);
  }
}

}  // namespace traintrace
