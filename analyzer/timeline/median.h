#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace traintrace {

// Of an even number of values the greater of the two in the middle; `values` is not empty.
inline int64_t upper_median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of an even number of values the mean of the two in the middle; `values` is not empty.
inline int64_t middle_median(std::vector<int64_t> values) {
  const size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half]
                                : values[half - 1] + (values[half] - values[half - 1]) / 2;
}

// What is usual among several: of two the lesser, as one of them is always the greater one.
inline int64_t median_or_lesser(const std::vector<int64_t>& values) {
  return values.size() == 2 ? std::min(values[0], values[1]) : middle_median(values);
}

}  // namespace traintrace
