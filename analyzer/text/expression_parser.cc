#include "analyzer/text/expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace traintrace {
namespace {

using Kind = ExpressionNode::Kind;
using ByteSet = std::bitset<256>;

template <class Has>
ByteSet set_of(Has has) {
  ByteSet set;
  for (unsigned byte = 0; byte < set.size(); ++byte) {
    set[byte] = has(static_cast<unsigned char>(byte));
  }
  return set;
}

bool is_between(unsigned char byte, char first, char last) {
  return byte >= static_cast<unsigned char>(first) && byte <= static_cast<unsigned char>(last);
}
bool is_digit_byte(unsigned char byte) {
  return is_between(byte, '0', '9');
}
bool is_upper_byte(unsigned char byte) {
  return is_between(byte, 'A', 'Z');
}
bool is_lower_byte(unsigned char byte) {
  return is_between(byte, 'a', 'z');
}
bool is_letter_byte(unsigned char byte) {
  return is_upper_byte(byte) || is_lower_byte(byte);
}
bool is_space_byte(unsigned char byte) {
  return byte == ' ' || is_between(byte, '\t', '\r');
}
bool is_visible_byte(unsigned char byte) {
  return is_between(byte, '!', '~');
}

struct NamedSet {
  std::string_view name;
  bool (*has)(unsigned char);
};
// [:alpha:]
constexpr std::array<NamedSet, 13> kNamedSets = {{
    {"alnum", [](unsigned char byte) { return is_letter_byte(byte) || is_digit_byte(byte); }},
    {"alpha", is_letter_byte},
    {"blank", [](unsigned char byte) { return byte == ' ' || byte == '\t'; }},
    {"cntrl", [](unsigned char byte) { return byte < ' ' || byte == 0x7f; }},
    {"d", is_digit_byte},
    {"digit", is_digit_byte},
    {"graph", is_visible_byte},
    {"lower", is_lower_byte},
    {"print", [](unsigned char byte) { return byte == ' ' || is_visible_byte(byte); }},
    {"punct",
     [](unsigned char byte) {
       return is_visible_byte(byte) && !is_letter_byte(byte) && !is_digit_byte(byte);
     }},
    {"space", is_space_byte},
    {"upper", is_upper_byte},
    {"xdigit",
     [](unsigned char byte) {
       return is_digit_byte(byte) || is_between(byte, 'a', 'f') || is_between(byte, 'A', 'F');
     }},
}};

// \d, \W ..; empty: it is none of these.
std::optional<ByteSet> set_of_letter(char letter) {
  switch (letter) {
    case 'd':
      return set_of(is_digit_byte);
    case 'D':
      return ~set_of(is_digit_byte);
    case 's':
      return set_of(is_space_byte);
    case 'S':
      return ~set_of(is_space_byte);
    case 'w':
      return set_of(is_word_byte);
    case 'W':
      return ~set_of(is_word_byte);
    default:
      return std::nullopt;
  }
}

ByteSet only(unsigned char byte) {
  ByteSet set;
  set.set(byte);
  return set;
}

class Parser {
 public:
  Parser(std::string_view text, int most_nested) : text_(text), most_nested_(most_nested) {}

  ExpressionNode parse() {
    ExpressionNode all = choice(0);
    if (wrong_.empty() && at_ < text_.size()) {
      fail(at_, "expected no \")\" that closes nothing");
    }
    return all;
  }
  std::string wrong() && { return std::move(wrong_); }

 private:
  bool has_more() const { return wrong_.empty() && at_ < text_.size(); }
  bool is_at(char c) const { return has_more() && text_[at_] == c; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) {
      return false;
    }
    at_ += what.size();
    return true;
  }
  void fail(size_t at, std::string_view why) {
    if (wrong_.empty()) {
      wrong_ = "at " + std::to_string(at + 1) + ": " + std::string(why);
    }
  }

  ExpressionNode choice(int depth) {
    ExpressionNode all{.kind = Kind::kChoice};
    do {
      all.parts.push_back(sequence(depth));
    } while (has_more() && take("|"));
    return all;
  }

  ExpressionNode sequence(int depth) {
    ExpressionNode all;
    while (has_more() && !is_at('|') && !is_at(')')) {
      if (std::optional<ExpressionNode> place = assertion()) {
        all.parts.push_back(*std::move(place));
      } else {
        all.parts.push_back(repeated(atom(depth)));
      }
    }
    return all;
  }

  // What matches between two bytes.
  std::optional<ExpressionNode> assertion() {
    constexpr std::array<std::pair<std::string_view, Kind>, 4> kPlaces = {{
        {"^", Kind::kBegin},
        {"$", Kind::kEnd},
        {"\\b", Kind::kAtWord},
        {"\\B", Kind::kNotAtWord},
    }};
    for (const auto& [word, kind] : kPlaces) {
      if (take(word)) {
        return ExpressionNode{.kind = kind};
      }
    }
    return std::nullopt;
  }

  ExpressionNode repeated(ExpressionNode part) {
    const size_t begin = at_;
    uint32_t fewest = 0;
    uint32_t most = kExpressionUnbounded;
    if (!has_more()) {
      return part;
    }
    if (take("{")) {
      fewest = number();
      most = !take(",") ? fewest : is_at('}') ? kExpressionUnbounded : number();
      if (!take("}") || most < fewest) {
        fail(begin, "expected {N}, {N,} or {N,M}");
      }
    } else if (take("?")) {
      most = 1;
    } else if (take("+")) {
      fewest = 1;
    } else if (!take("*")) {
      return part;
    }
    take("?");  // as few as possible: that there is a match is the same
    ExpressionNode all{.kind = Kind::kRepeat, .fewest = fewest, .most = most};
    all.parts.push_back(std::move(part));
    return all;
  }

  uint32_t number() {
    constexpr uint32_t kMostTimes = 100000;  // far more than are accepted
    const size_t begin = at_;
    uint32_t value = 0;
    for (; has_more() && is_digit_byte(text_[at_]); ++at_) {
      value = std::min(value * 10 + static_cast<uint32_t>(text_[at_] - '0'), kMostTimes);
    }
    if (at_ == begin) {
      fail(begin, "expected a number");
    }
    return value;
  }

  ExpressionNode atom(int depth) {
    const size_t begin = at_;
    const char c = text_[at_++];
    ExpressionNode one{.kind = Kind::kByte};
    switch (c) {
      case '(':
        return group(begin, depth);
      case '[':
        one.set = bracket(begin);
        break;
      case '.':
        one.set = ~(only('\n') | only('\r'));
        break;
      case '\\':
        one.set = escaped(begin);
        break;
      case '*':
      case '+':
      case '?':
      case '{':
        fail(begin, "expected something to repeat before it");
        break;
      default:
        one.set = only(static_cast<unsigned char>(c));
    }
    return one;
  }

  ExpressionNode group(size_t begin, int depth) {
    if (depth >= most_nested_) {
      fail(begin,
           "expected at most " + std::to_string(most_nested_) + " groups within one another");
      return {};
    }
    if (take("?=") || take("?!")) {
      fail(begin, "expected no look-ahead, which is not supported");
    }
    take("?:");
    ExpressionNode all = choice(depth + 1);
    if (!is_at(')') || !take(")")) {
      fail(begin, "expected a \")\" for this \"(\"");
    }
    return all;
  }

  ByteSet escaped(size_t begin) {
    if (at_ >= text_.size()) {
      fail(begin, "expected a character after the backslash");
      return {};
    }
    if (const std::optional<ByteSet> set = set_of_letter(text_[at_])) {
      ++at_;
      return *set;
    }
    return only(escaped_byte(begin));
  }

  // After the backslash.
  unsigned char escaped_byte(size_t begin) {
    const char c = text_[at_++];
    switch (c) {
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'v':
        return '\v';
      case '0':
        return '\0';
      case 'c':
        return control(begin);
      case 'x':
        return hex(begin, 2);
      case 'u':
        return hex(begin, 4);
      default:
        break;
    }
    if (is_digit_byte(c)) {
      fail(begin, "expected no back reference, which is not supported");
    } else if (is_letter_byte(c)) {
      fail(begin,
           "expected one of \\b \\B \\d \\D \\s \\S \\w \\W \\f \\n \\r \\t \\v \\0 \\cX \\xHH "
           "\\uHHHH");
    }
    return static_cast<unsigned char>(c);
  }

  unsigned char control(size_t begin) {
    if (!has_more() || !is_letter_byte(text_[at_])) {
      fail(begin, "expected a letter after \\c");
      return 0;
    }
    return static_cast<unsigned char>(text_[at_++]) % 32;
  }

  unsigned char hex(size_t begin, int digits) {
    unsigned value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const size_t digit = kDigits.find(is_upper_byte(c) ? static_cast<char>(c - 'A' + 'a') : c);
      if (digit == kDigits.npos) {
        fail(begin, "expected " + std::to_string(digits) + " hexadecimal digits");
        return 0;
      }
      value = value * 16 + static_cast<unsigned>(digit);
    }
    if (value > 0xff) {
      fail(begin, "expected a byte: names are searched byte for byte");
    }
    return static_cast<unsigned char>(value);
  }

  // After the `[`.
  ByteSet bracket(size_t begin) {
    ByteSet set;
    const bool none_of = take("^");
    while (has_more() && !is_at(']')) {
      const size_t at = at_;
      const std::optional<unsigned char> first = member(set);
      if (!first || !text_.substr(at_).starts_with("-") || text_.substr(at_).starts_with("-]")) {
        set |= first ? only(*first) : ByteSet();
        continue;
      }
      take("-");
      const std::optional<unsigned char> last = has_more() ? member(set) : std::nullopt;
      if (!last || *last < *first) {
        fail(at, "expected a range from a lower to a higher character");
        break;
      }
      for (unsigned byte = *first; byte <= *last; ++byte) {
        set.set(byte);
      }
    }
    if (!is_at(']') || !take("]")) {
      fail(begin, "expected a \"]\" for this \"[\"");
    }
    return none_of ? ~set : set;
  }

  // One character; empty: it was the name of a set, which was added.
  std::optional<unsigned char> member(ByteSet& set) {
    const size_t begin = at_;
    if (take("[:")) {
      const size_t end = std::min(text_.find(":]", at_), text_.size());
      const std::string_view name = text_.substr(at_, end - at_);
      const auto found = std::find_if(kNamedSets.begin(), kNamedSets.end(),
                                      [&](const NamedSet& each) { return each.name == name; });
      if (found == kNamedSets.end() || end == text_.size()) {
        fail(begin, "expected the name of a class, as in [:alpha:]");
        return std::nullopt;
      }
      at_ = end + 2;
      set |= set_of(found->has);
      return std::nullopt;
    }
    const char c = text_[at_++];
    if (c != '\\') {
      return static_cast<unsigned char>(c);
    }
    if (at_ >= text_.size()) {
      fail(begin, "expected a character after the backslash");
      return std::nullopt;
    }
    if (const std::optional<ByteSet> letter = set_of_letter(text_[at_])) {
      ++at_;
      set |= *letter;
      return std::nullopt;
    }
    if (take("b")) {
      return '\b';
    }
    return escaped_byte(begin);
  }

  std::string_view text_;
  int most_nested_;
  size_t at_ = 0;
  std::string wrong_;
};

}  // namespace

bool is_word_byte(unsigned char byte) {
  return is_letter_byte(byte) || is_digit_byte(byte) || byte == '_';
}

ExpressionNode parse_expression(std::string_view expression, int most_nested, std::string& wrong) {
  Parser parser(expression, most_nested);
  ExpressionNode all = parser.parse();
  wrong = std::move(parser).wrong();
  return all;
}

}  // namespace traintrace
