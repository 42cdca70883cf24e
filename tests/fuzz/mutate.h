// Damage, the same for the same seed on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace traintrace::fuzz {

// SplitMix64: <random>'s distributions differ between standard libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : next() % limit; }

 private:
  uint64_t state_;
};

// Bits, bytes, words of interesting values, cuts, copies of one part over another.
std::string damaged_bytes(const std::string& input, Random& random);

// Numbers of a text, others in their place.
std::string damaged_numbers(const std::string& input, Random& random);

// Lines and words that are dropped, doubled, swapped, or taken from `others`.
std::string damaged_text(const std::string& input, const std::vector<std::string>& others,
                         Random& random);

}  // namespace traintrace::fuzz
