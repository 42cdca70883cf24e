#include "analyzer/importers/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>

namespace traintrace {
namespace {

// Names as Python's pickle.py has them.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kEmptyTuple = ')',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kDict = 'd',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr uint8_t kNewestProtocol = 5;

class PickleReader {
 public:
  PickleReader(std::string_view bytes, const std::string& file, ValueArena& arena)
      : bytes_(bytes), file_(file), arena_(arena) {}

  Result<Value> read() {
    if (!looks_like_pickle(bytes_)) {
      return error(0, "expected a pickle of protocol 2 to 5");
    }
    while (at_ < bytes_.size()) {
      opcode_at_ = at_;
      const auto opcode = static_cast<uint8_t>(bytes_[at_++]);
      if (opcode == kStop) {
        return stack_.size() == 1 && stack_[0].kind() != Value::Kind::kMark
                   ? Result<Value>(stack_[0])
                   : error(opcode_at_, "expected one value at the end");
      }
      if (!step(opcode)) {
        ReadError failed = error(opcode_at_, problem_);
        failed.truncated = cut_;
        return failed;
      }
    }
    ReadError failed = error(bytes_.size(), "expected more: the pickle is cut off");
    failed.truncated = true;
    return failed;
  }

 private:
  ReadError error(size_t offset, const std::string& message) const {
    return {file_, offset, message, true, false};
  }
  bool fail(const char* problem) {
    problem_ = problem;
    return false;
  }
  bool push(Value value) {
    stack_.push_back(value);
    return true;
  }

  // Little endian, or nothing where the file ends.
  template <class Number>
  bool take(Number& number) {
    if (bytes_.size() - at_ < sizeof number) {
      cut_ = true;
      return fail("expected more: the pickle is cut off");
    }
    std::memcpy(&number, bytes_.data() + at_, sizeof number);
    at_ += sizeof number;
    return true;
  }
  template <class Number>
  bool push_integer() {
    Number number = 0;
    return take(number) && push(Value::integer(number));
  }
  template <class Length>
  bool push_text() {
    Length length = 0;
    if (!take(length)) {
      return false;
    }
    if (length > bytes_.size() - at_ || length > UINT32_MAX) {
      cut_ = true;
      return fail("expected a text: it is longer than the file");
    }
    const std::string_view text = bytes_.substr(at_, static_cast<size_t>(length));
    at_ += text.size();
    return push(Value::text(text));
  }
  bool push_real() {
    uint64_t bits = 0;
    return take(bits) && push(Value::real(std::bit_cast<double>(__builtin_bswap64(bits))));
  }
  bool push_long() {
    uint8_t size = 0;
    if (!take(size)) {
      return false;
    }
    if (size > sizeof(int64_t) || size > bytes_.size() - at_) {
      return fail("expected a number of 64 bits");
    }
    uint64_t number = 0;
    std::memcpy(&number, bytes_.data() + at_, size);
    at_ += size;
    const int unused = 64 - 8 * size;
    const auto value = static_cast<int64_t>(size == 0 ? 0 : number << unused);
    return push(Value::integer(size == 0 ? 0 : value >> unused));
  }

  bool put(size_t index) {
    if (stack_.empty() || stack_.back().kind() == Value::Kind::kMark) {
      return fail("expected a value to remember");
    }
    // Picklers number them from 0; what is far beyond would only cost memory.
    if (index > memo_.size()) {
      return fail("expected a number in order for a value to remember");
    }
    index == memo_.size() ? memo_.push_back(stack_.back()) : void(memo_[index] = stack_.back());
    return true;
  }
  template <class Index>
  bool put() {
    Index index = 0;
    return take(index) && put(index);
  }
  template <class Index>
  bool get() {
    Index index = 0;
    if (!take(index)) {
      return false;
    }
    return index < memo_.size() ? push(memo_[index])
                                : fail("expected the number of a value that is remembered");
  }

  std::optional<size_t> last_mark() const {
    for (size_t i = stack_.size(); i > 0; --i) {
      if (stack_[i - 1].kind() == Value::Kind::kMark) {
        return i - 1;
      }
    }
    return std::nullopt;
  }
  // The values from `first` on become one.
  bool gather(Value::Kind kind, size_t first) {
    const std::span<const Value> values = std::span<const Value>(stack_).subspan(first);
    for (const Value& value : values) {
      if (value.kind() == Value::Kind::kMark) {
        return fail("expected a value");
      }
    }
    ValueItems* const items = arena_.new_items();
    arena_.append(*items, values);
    stack_.resize(first);
    return push(Value::container(kind, items));
  }
  bool gather_marked(Value::Kind kind) {
    const auto mark = last_mark();
    if (!mark || (kind == Value::Kind::kDict && (stack_.size() - *mark) % 2 == 0)) {
      return fail("expected the values of a list or dictionary");
    }
    return gather(kind, *mark + 1) && drop_mark(*mark);
  }
  bool drop_mark(size_t mark) {
    stack_[mark] = stack_.back();
    stack_.resize(mark + 1);
    return true;
  }
  bool gather_last(size_t count) {
    return stack_.size() < count ? fail("expected the values of a tuple")
                                 : gather(Value::Kind::kList, stack_.size() - count);
  }
  // Adds the values from `first` on to the container at `target`.
  bool extend(Value::Kind kind, size_t target, size_t first) {
    const std::span<const Value> values = std::span<const Value>(stack_).subspan(first);
    const bool even = kind == Value::Kind::kList || values.size() % 2 == 0;
    if (stack_[target].kind() != kind || !even) {
      return fail("expected a list or dictionary to add to");
    }
    ValueItems& items = *stack_[target].mutable_items();
    if (items.size + values.size() > UINT32_MAX / 2) {
      return fail("expected a list of a possible length");
    }
    arena_.append(items, values);
    stack_.resize(target + 1);
    return true;
  }
  bool extend_marked(Value::Kind kind) {
    const auto mark = last_mark();
    return mark && *mark > 0 ? extend(kind, *mark - 1, *mark + 1)
                             : fail("expected a list or dictionary to add to");
  }
  bool extend_last(Value::Kind kind, size_t count) {
    if (stack_.size() < count + 1) {
      return fail("expected a list or dictionary to add to");
    }
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      if (stack_[i].kind() == Value::Kind::kMark) {
        return fail("expected a value");
      }
    }
    return extend(kind, stack_.size() - count - 1, stack_.size() - count);
  }

  // One switch: a dump of a thousand records has 40,000 of these.
  bool step(uint8_t opcode) {
    switch (opcode) {
      case kBinGet:
        return get<uint8_t>();
      case kLongBinGet:
        return get<uint32_t>();
      case kBinPut:
        return put<uint8_t>();
      case kLongBinPut:
        return put<uint32_t>();
      case kMemoize:
        return put(memo_.size());
      case kMark:
        return push(Value::mark());
      case kNone:
        return push(Value());
      case kNewTrue:
        return push(Value::boolean(true));
      case kNewFalse:
        return push(Value::boolean(false));
      case kProto: {
        uint8_t protocol = 0;
        return take(protocol) &&
               (protocol <= kNewestProtocol || fail("expected a protocol up to 5"));
      }
      case kFrame: {
        uint64_t ignored = 0;
        return take(ignored);
      }
      case kBinInt:
        return push_integer<int32_t>();
      case kBinInt1:
        return push_integer<uint8_t>();
      case kBinInt2:
        return push_integer<uint16_t>();
      case kLong1:
        return push_long();
      case kBinFloat:
        return push_real();
      case kShortBinUnicode:
        return push_text<uint8_t>();
      case kBinUnicode:
        return push_text<uint32_t>();
      case kBinUnicode8:
        return push_text<uint64_t>();
      case kEmptyList:
      case kEmptyTuple:
        return push(Value::container(Value::Kind::kList, arena_.new_items()));
      case kEmptyDict:
        return push(Value::container(Value::Kind::kDict, arena_.new_items()));
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return gather_last(opcode - kTuple1 + 1U);
      case kTuple:
      case kList:
        return gather_marked(Value::Kind::kList);
      case kDict:
        return gather_marked(Value::Kind::kDict);
      case kAppend:
        return extend_last(Value::Kind::kList, 1);
      case kAppends:
        return extend_marked(Value::Kind::kList);
      case kSetItem:
        return extend_last(Value::Kind::kDict, 2);
      case kSetItems:
        return extend_marked(Value::Kind::kDict);
      default:
        return fail(
            "expected numbers, text, lists and dictionaries, as PyTorch's dumps and snapshots "
            "are: what makes objects (a model, an array) is not read");
    }
  }

  std::string_view bytes_;
  const std::string& file_;
  ValueArena& arena_;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  std::vector<Value> stack_;
  std::vector<Value> memo_;
  const char* problem_ = nullptr;
  bool cut_ = false;
};

}  // namespace

bool looks_like_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && static_cast<uint8_t>(bytes[0]) == kProto &&
         static_cast<uint8_t>(bytes[1]) >= 2 && static_cast<uint8_t>(bytes[1]) <= kNewestProtocol;
}

Result<Value> read_pickle(std::string_view bytes, const std::string& file, ValueArena& arena) {
  return PickleReader(bytes, file, arena).read();
}

}  // namespace traintrace
