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

}  // namespace traintrace
