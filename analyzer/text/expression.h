// Regular expressions that are searched in names of others, in time that grows with the length of
// the name and with nothing else.  std::regex tries one way after the other, by recursion: a long
// name overflows its stack, and `(a+)+!` does not end.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace traintrace {

// The syntax of RE2 (https://github.com/google/re2/wiki/Syntax), byte for byte: Perl's but for what
// cannot be searched so, back references and look-ahead.
class Expression {
 public:
  static constexpr size_t kMostBytes = 4096;      // of an expression
  static constexpr int kMostMemory = 256 * 1024;  // in bytes, of what an expression is compiled to

  // What is wrong with the expression goes to `wrong`; empty: nothing.
  Expression(std::string_view expression, std::string& wrong);

  // Whether a part of the text matches.  Not of an expression with which something is wrong.
  bool is_in(std::string_view text) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace traintrace
