// How likely something is that may be no more than chance.
#pragma once

#include <cmath>
#include <cstddef>

namespace traintrace {

// That `times` of `all` or more fall on one of several by chance; `each`: on that one, of each.
inline double chance_of(size_t times, size_t all, double each) {
  double sum = 0;
  for (size_t k = times; k <= all; ++k) {
    const auto n = static_cast<double>(all);
    const auto hits = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(hits + 1) - std::lgamma(n - hits + 1) +
                    hits * std::log(each) + (n - hits) * std::log1p(-each));
  }
  return sum;
}

}  // namespace traintrace
