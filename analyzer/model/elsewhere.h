// Ranks whose traces are known to be on hosts that cannot be reached from here.
#pragma once

#include <algorithm>

#include "analyzer/model/run.h"

namespace traintrace {

inline bool is_elsewhere(const Run& run, Rank rank) {
  return std::any_of(run.elsewhere.begin(), run.elsewhere.end(),
                     [&](const ElsewhereTrace& trace) { return trace.rank == rank.value; });
}

inline bool are_elsewhere(const Run& run, const Ranks& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](Rank rank) { return is_elsewhere(run, rank); });
}

}  // namespace traintrace
