// A parser of the grammar in https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling that keeps
// of each part how long it is, and the same list of parts as a demangler to refer back to.
#include "analyzer/symbols/demangled_size.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analyzer/symbols/name_cursor.h"

namespace traintrace {
namespace {

constexpr int kDeepest = 256;
constexpr uint64_t kLongestStandard = 112;  // std::basic_string<char, std::char_traits<char>, ..

class NameSize : NameCursor {
 public:
  explicit NameSize(std::string_view text) : NameCursor(text) {}

  std::optional<size_t> of_symbol() {
    uint64_t size = take("_Z") ? encoding() : fail();
    size += at_ == text_.size() || peek() == '.' || peek() == '@' ? text_.size() - at_ : fail();
    return good_ ? std::optional(static_cast<size_t>(std::min(size, kMost))) : std::nullopt;
  }

 private:
  class Deeper {
   public:
    explicit Deeper(NameSize& name) : name_(name) { name_.good_ &= ++name_.depth_ <= kDeepest; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ~Deeper() { --name_.depth_; }

   private:
    NameSize& name_;
  };

  // Everything that refers back is the size of a part that was kept.
  uint64_t keep(uint64_t size) {
    parts_.push_back(std::min(size, kMost));
    return parts_.back();
  }
  uint64_t encoding() {
    const Deeper deeper(*this);
    if (!good_) {
      return 0;
    }
    uint64_t size = peek() == 'T' || peek() == 'G' ? special() : name();
    while (good_ && at_ < text_.size() && peek() != 'E' && peek() != '.' && peek() != '@') {
      size = std::min(size + 2 + type(), kMost);
    }
    return size;
  }
  // Tables of classes, thunks, guards.
  uint64_t special() {
    constexpr uint64_t kWords = 32;
    for (const char* const of_type : {"TV", "TT", "TI", "TS"}) {
      if (take(of_type)) {
        return kWords + type();
      }
    }
    return take("GV") || take("TW") || take("TH") ? kWords + name() : fail();
  }

  uint64_t name() {
    const Deeper deeper(*this);
    if (!good_) {
      return 0;
    }
    if (peek() == 'N') {
      return nested();
    }
    if (take("Z")) {
      return local();
    }
    const bool back = peek() == 'S' && peek(1) != 't';
    uint64_t size = back ? substitution() : (take("St") ? 5 : 0) + unqualified();
    if (peek() == 'I') {
      if (!back) {
        keep(size);
      }
      size += arguments();
    }
    return size;
  }
  uint64_t local() {
    uint64_t size = encoding();
    if (!take("E")) {
      return fail();
    }
    if (take("d")) {  // in a default argument
      number();
      if (!take("_")) {
        return fail();
      }
    }
    size += 2 + (take("s") ? kDecoration : name());
    discriminator();
    return size;
  }
  uint64_t nested() {
    ++at_;
    uint64_t size = 0;
    while (peek() == 'r' || peek() == 'V' || peek() == 'K' || peek() == 'R' || peek() == 'O') {
      ++at_;
      size += kDecoration;
    }
    const uint64_t decoration = size;
    while (good_ && !take("E")) {
      if (peek() == 'S') {  // is in the list, or never will be
        size += take("St") ? 3 : substitution();
        continue;
      }
      size += peek() == 'I'                    ? arguments()
              : peek() == 'T'                  ? parameter()
              : next_is("DT") || next_is("Dt") ? bare_decltype()
                                               : 2 + unqualified();
      take("M");  // of a data member's initializer
      if (peek() != 'E') {
        keep(size - decoration);
      }
    }
    return size;
  }
  uint64_t unqualified() {
    take("L");  // of this translation unit
    if (is_digit()) {
      return source_name();
    }
    if (take("Ut")) {
      number();
      return take("_") ? kDecoration * 2 : fail();
    }
    if (take("Ul")) {
      uint64_t size = kDecoration * 2;
      while (good_ && !take("E")) {
        size += 2 + type();
      }
      number();
      return take("_") ? size : fail();
    }
    if (take("DC")) {
      uint64_t size = 2;
      while (good_ && !take("E")) {
        size += 2 + source_name();
      }
      return size;
    }
    if ((peek() == 'C' || peek() == 'D') && is_digit(1)) {
      at_ += 2;  // named after its class, by its last part
      return kDecoration + text_.size() + tags();
    }
    if (take("cv")) {
      return kDecoration + type();
    }
    if (take("li")) {
      return kDecoration + source_name();
    }
    if (is_lower()) {
      at_ += 2;
      return kDecoration + tags();
    }
    return fail();
  }

  uint64_t substitution() {
    ++at_;
    if (is_lower()) {
      ++at_;
      return kLongestStandard + tags();
    }
    const uint64_t number = reference();
    return number < parts_.size() ? parts_[number] : fail();
  }
  // Whichever it is of the arguments that were there: which ones depends on where it is printed.
  uint64_t parameter() {
    ++at_;
    if (take("L")) {
      number();
      if (!take("_")) {
        return fail();
      }
    }
    reference();
    return std::max(longest_argument_, kDecoration);
  }
  uint64_t arguments() {
    const Deeper deeper(*this);
    ++at_;
    uint64_t size = 3;
    while (good_ && !take("E")) {
      const uint64_t one = argument();
      longest_argument_ = std::max(longest_argument_, std::min(one, kMost));
      size = std::min(size + 2 + one, kMost);
    }
    return size;
  }
  uint64_t argument() {
    const Deeper deeper(*this);
    if (!good_ || at_ >= text_.size()) {
      return fail();
    }
    if (peek() == 'L') {
      return literal();
    }
    if (take("X")) {
      return expression();
    }
    if (take("J")) {
      uint64_t size = 0;
      while (good_ && !take("E")) {
        size = std::min(size + 2 + argument(), kMost);
      }
      return size;
    }
    return type();
  }
  uint64_t literal() {
    ++at_;
    if (peek() == '_' || peek() == 'Z') {
      take("_");
      const uint64_t size = take("Z") ? encoding() : fail();
      return take("E") ? size : fail();
    }
    uint64_t size = type() + 2;
    for (; at_ < text_.size() && peek() != 'E'; ++at_) {
      ++size;
    }
    return take("E") ? size : fail();
  }
  // Up to the 'E' that ends it.  Operators have two letters; what they are applied to follows, and
  // is the same to us in whatever order.
  uint64_t expression() {
    uint64_t size = 0;
    for (int open = 1; good_ && open > 0;) {
      if (at_ >= text_.size()) {
        return fail();
      }
      if (take("E")) {
        --open;
      } else if (take("_")) {
        continue;
      } else if (is_lower()) {
        size += kDecoration;
        open += operator_name(size);
      } else {
        size += peek() == 'L' ? literal() : is_digit() ? source_name() : operand();
      }
      size = std::min(size, kMost);
    }
    return size;
  }
  uint64_t operand() { return take("X") ? expression() : peek() == 'I' ? arguments() : type(); }
  // How many more 'E's there have to be.
  int operator_name(uint64_t& size) {
    const std::string_view word = text_.substr(at_, 2);
    const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
      return std::find(words.begin(), words.end(), word) != words.end();
    };
    at_ += 2;
    if (is_one_of({"fp", "fL"})) {  // a parameter of the function
      while (is_digit() || peek() == 'p' || peek() == 'K' || peek() == 'V' || peek() == 'r') {
        ++at_;
      }
      take("_");
    } else if (is_one_of({"st", "sr", "at", "ti", "dc", "sc", "cc", "rc", "tl"})) {
      size += type();
    } else if (word == "cv") {
      size += type();
      return take("_") ? 1 : 0;
    } else if (word == "on") {
      size += kDecoration;
    }
    return is_one_of({"cl", "il", "tl", "cp"}) ? 1 : 0;
  }

  uint64_t bare_decltype() {
    at_ += 2;
    return kDecoration + expression();
  }
  uint64_t type() {
    const Deeper deeper(*this);
    if (!good_) {
      return 0;
    }
    const char c = peek();
    if (c == 'r' || c == 'V' || c == 'K') {
      uint64_t size = 0;
      for (; peek() == 'r' || peek() == 'V' || peek() == 'K'; ++at_) {
        size += kDecoration;
      }
      return keep(size + type());
    }
    if (c == 'P' || c == 'R' || c == 'O' || c == 'C' || c == 'G') {
      ++at_;
      return keep(kDecoration + type());
    }
    if (c == 'u') {
      ++at_;
      const uint64_t size = source_name();
      return keep(size + (peek() == 'I' ? arguments() : 0));
    }
    if (is_lower()) {
      ++at_;
      return kDecoration * 2;  // unsigned long long
    }
    return c == 'D' ? type_of_two_letters() : c == 'S' ? named_back() : compound_type();
  }
  uint64_t named_back() {
    if (peek(1) == 't') {
      return named();
    }
    const uint64_t size = substitution();
    return peek() == 'I' ? keep(size + arguments()) : size;
  }
  uint64_t named() { return keep(name()); }
  uint64_t compound_type() {
    switch (peek()) {
      case 'F':
        return function_type();
      case 'A': {
        ++at_;
        number();
        return take("_") ? keep(kDecoration * 2 + type()) : fail();
      }
      case 'M': {
        ++at_;
        const uint64_t of = type();
        return keep(of + kDecoration + type());
      }
      case 'T': {
        if (peek(1) == 's' || peek(1) == 'u' || peek(1) == 'e') {
          at_ += 2;
          return named();
        }
        const uint64_t size = keep(parameter());
        return peek() == 'I' ? keep(size + arguments()) : size;
      }
      case 'U': {
        ++at_;
        uint64_t size = source_name();
        size += peek() == 'I' ? arguments() : 0;
        return keep(size + type());
      }
      default:
        return peek() == 'N' || peek() == 'Z' || is_digit() ? named() : fail();
    }
  }
  uint64_t function_type() {
    ++at_;
    take("Y");
    uint64_t size = kDecoration;
    while (good_ && !take("E")) {
      if ((peek() == 'R' || peek() == 'O') && peek(1) == 'E') {
        ++at_;
        continue;
      }
      size = std::min(size + 2 + type(), kMost);
    }
    return keep(size);
  }
  uint64_t type_of_two_letters() {
    const char second = peek(1);
    if (second == 't' || second == 'T') {
      return keep(bare_decltype());
    }
    at_ += 2;
    switch (second) {
      case 'p':
        return keep(kDecoration + type());
      case 'o':  // noexcept
        return kDecoration + type();
      case 'v': {
        number();
        return take("_") ? keep(kDecoration * 3 + type()) : fail();
      }
      case 'F':
        number();
        take("x") || take("b");
        take("_");
        return kDecoration;
      default:
        return kDecoration * 2;
    }
  }

  int depth_ = 0;
  std::vector<uint64_t> parts_;
  uint64_t longest_argument_ = 0;
};

}  // namespace

std::optional<size_t> demangled_size(std::string_view name) {
  return NameSize(name).of_symbol();
}

}  // namespace traintrace
