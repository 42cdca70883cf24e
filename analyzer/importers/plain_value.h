// Numbers, texts, lists and dictionaries as pickle and JSON files hold them.  Parts may be shared,
// and a hostile file may nest them in themselves: whoever walks them goes by a schema, never by
// what is there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace traintrace {

class Value;

// Of a list or tuple its elements, of a dictionary keys and values by turns.
struct ValueItems {
  Value* first = nullptr;
  uint32_t size = 0;
  uint32_t capacity = 0;
};

class Value {
 public:
  enum class Kind : uint8_t { kNone, kBool, kInteger, kReal, kText, kList, kDict, kMark };

  Value() = default;
  static Value boolean(bool value) { return Value(Kind::kBool, value ? 1 : 0); }
  static Value integer(int64_t value) { return Value(Kind::kInteger, value); }
  static Value real(double value) {
    Value made(Kind::kReal, 0);
    made.real_ = value;
    return made;
  }
  // `text` must outlive the value.
  static Value text(std::string_view text) {
    Value made(Kind::kText, 0);
    made.text_ = text.data();
    made.length_ = static_cast<uint32_t>(text.size());
    return made;
  }
  static Value container(Kind kind, ValueItems* items) {
    Value made(kind, 0);
    made.items_ = items;
    return made;
  }
  static Value mark() { return Value(Kind::kMark, 0); }

  Kind kind() const { return kind_; }
  bool is_container() const { return kind_ == Kind::kList || kind_ == Kind::kDict; }
  bool as_bool() const { return kind_ == Kind::kBool && integer_ != 0; }
  int64_t as_integer(int64_t otherwise) const {
    return kind_ == Kind::kInteger || kind_ == Kind::kBool ? integer_ : otherwise;
  }
  double as_number(double otherwise) const {
    return kind_ == Kind::kReal      ? real_
           : kind_ == Kind::kInteger ? static_cast<double>(integer_)
                                     : otherwise;
  }
  std::string_view as_text() const {
    return kind_ == Kind::kText ? std::string_view(text_, length_) : std::string_view();
  }
  // Empty for what is no container; of a dictionary keys and values by turns.
  std::span<const Value> items() const {
    return is_container() ? std::span<const Value>(items_->first, items_->size)
                          : std::span<const Value>();
  }
  std::span<const Value> list() const {
    return kind_ == Kind::kList ? items() : std::span<const Value>();
  }
  std::span<const Value> pairs() const {
    return kind_ == Kind::kDict ? items() : std::span<const Value>();
  }
  // Of a dictionary; null if there is no such key.
  const Value* find(std::string_view key) const {
    const std::span<const Value> all = pairs();
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      if (all[i].as_text() == key && all[i].kind() == Kind::kText) {
        return &all[i + 1];
      }
    }
    return nullptr;
  }
  ValueItems* mutable_items() const { return items_; }

 private:
  Value(Kind kind, int64_t integer) : kind_(kind), integer_(integer) {}

  Kind kind_ = Kind::kNone;
  uint32_t length_ = 0;
  union {
    int64_t integer_ = 0;
    double real_;
    const char* text_;
    ValueItems* items_;
  };
};
static_assert(sizeof(Value) == 16, "files of a million records are read");

// Where values live; they go all at once.
class ValueArena {
 public:
  ValueItems* new_items();
  void append(ValueItems& items, std::span<const Value> values);
  std::string_view keep(std::string_view text);
  // All values are gone; their memory is used again.
  void clear();

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  std::byte* take(size_t bytes);

  std::vector<Block> blocks_;
  size_t used_blocks_ = 0;
  size_t left_ = 0;
  std::byte* next_ = nullptr;
};

}  // namespace traintrace
