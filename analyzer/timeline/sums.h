// Sums of times that files say, which may be anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace traintrace {

inline int64_t added(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    sum = a < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  }
  return sum;
}

// No longer than what may be subtracted from another such sum.
inline int64_t added_within(int64_t a, int64_t b) {
  constexpr int64_t kLongestSum = int64_t{1} << 61;
  return std::clamp(added(a, b), -kLongestSum, kLongestSum);
}

}  // namespace traintrace
