// Where a parser of mangled names is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace traintrace {

class NameCursor {
 public:
  static constexpr uint64_t kMost = uint64_t{1} << 40;  // numbers stop there; sums fit 64 bits
  // " const", "operator()", "{lambda#1}", "decltype (" ..
  static constexpr uint64_t kDecoration = 16;

 protected:
  explicit NameCursor(std::string_view text) : text_(text) {}

  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool next_is(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool take(std::string_view word) {
    const bool there = next_is(word);
    at_ += there ? word.size() : 0;
    return there;
  }
  bool is_digit(size_t ahead = 0) const { return peek(ahead) >= '0' && peek(ahead) <= '9'; }
  bool is_lower(size_t ahead = 0) const { return peek(ahead) >= 'a' && peek(ahead) <= 'z'; }
  uint64_t fail() {
    good_ = false;
    at_ = text_.size();
    return 0;
  }
  uint64_t number() {
    uint64_t value = 0;
    for (; is_digit(); ++at_) {
      value = std::min(value * 10 + static_cast<uint64_t>(peek() - '0'), kMost);
    }
    return value;
  }
  // "_", "0_", "1_" ..: 0, 1, 2 ..
  uint64_t reference() {
    uint64_t value = 0;
    bool any = false;
    for (; is_digit() || (peek() >= 'A' && peek() <= 'Z'); ++at_, any = true) {
      const int digit = is_digit() ? peek() - '0' : peek() - 'A' + 10;
      value = std::min(value * 36 + static_cast<uint64_t>(digit), kMost);
    }
    return take("_") ? value + (any ? 1 : 0) : fail();
  }

  void discriminator() {
    if (take("__")) {
      number();
      take("_");
    } else if (peek() == '_' && is_digit(1)) {
      at_ += 2;
    }
  }
  uint64_t source_name() {
    const uint64_t length = number();
    if (length == 0 || length > text_.size() - std::min(at_, text_.size())) {
      return fail();
    }
    at_ += length;
    return std::max(length, kDecoration * 2) + tags();
  }
  uint64_t tags() {
    uint64_t size = 0;
    while (good_ && take("B")) {
      size += kDecoration + source_name();
    }
    return size;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool good_ = true;
};

}  // namespace traintrace
