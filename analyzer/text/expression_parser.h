// A regular expression, taken apart.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace traintrace {

struct ExpressionNode {
  enum class Kind : uint8_t {
    kSequence,  // of `parts`; none: matches what is empty
    kChoice,    // one of `parts`
    kRepeat,    // parts[0], `fewest` to `most` times
    kByte,      // one of `set`
    kBegin,
    kEnd,
    kAtWord,
    kNotAtWord,
  };
  Kind kind = Kind::kSequence;
  std::vector<ExpressionNode> parts = {};
  uint32_t fewest = 0;
  uint32_t most = 0;
  std::bitset<256> set = {};
};

constexpr uint32_t kExpressionUnbounded = UINT32_MAX;  // `most`

// What is wrong, and where, goes to `wrong`; empty: nothing.
ExpressionNode parse_expression(std::string_view expression, int most_nested, std::string& wrong);

// Letters, digits and the underscore.
bool is_word_byte(unsigned char byte);

}  // namespace traintrace
