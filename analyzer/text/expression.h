// Regular expressions that are searched in names of others, in time that grows with the length of
// the name and with nothing else.  std::regex tries one way after the other, by recursion: a long
// name overflows its stack, and `(a+)+!` does not end.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace traintrace {

// The syntax of ECMAScript, byte for byte, but for what cannot be searched so: back references and
// look-ahead.
class Expression {
 public:
  static constexpr size_t kMostBytes = 4096;       // of an expression
  static constexpr int kMostNested = 100;          // groups within one another
  static constexpr size_t kMostStates = 1000;      // of which {n} takes n times its operand's
  static constexpr size_t kSearchedBytes = 16384;  // of a text: no name is longer

  // What is wrong with the expression, "at 3: ..", goes to `wrong`; empty: nothing.
  Expression(std::string_view expression, std::string& wrong);

  // Whether a part of the text matches.
  bool is_in(std::string_view text) const;

 private:
  friend class ExpressionCompiler;
  enum class Step : uint8_t { kByte, kEither, kPass, kBegin, kEnd, kAtWord, kNotAtWord, kFound };
  struct State {
    Step step = Step::kPass;
    uint32_t next = 0;
    uint32_t other = 0;  // kEither: goes on there too.  kByte: which of sets_
  };
  class Search;

  std::vector<State> states_;
  std::vector<std::bitset<256>> sets_;
  uint32_t first_ = 0;
};

}  // namespace traintrace
