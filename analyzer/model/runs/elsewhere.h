// Ranks whose traces are known to be on hosts that cannot be reached from here.
#pragma once

#include <algorithm>

#include "analyzer/model/run.h"

namespace traintrace {

inline bool is_elsewhere(const Run& run, Rank rank) {
  const auto at =
      std::lower_bound(run.elsewhere.begin(), run.elsewhere.end(), rank.value,
                       [](const ElsewhereTrace& trace, int value) { return trace.rank < value; });
  return at != run.elsewhere.end() && at->rank == rank.value;
}

inline bool are_elsewhere(const Run& run, const Ranks& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](Rank rank) { return is_elsewhere(run, rank); });
}

}  // namespace traintrace
