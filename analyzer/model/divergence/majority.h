// Who differs from most.
#pragma once

#include <map>

#include "analyzer/model/ids.h"

namespace traintrace {

// Those who have another value than more than half of all; nobody where there is no such half.
template <class Value>
Ranks outvoted(const std::map<Value, Ranks>& by_value) {
  size_t all = 0;
  for (const auto& [value, ranks] : by_value) {
    all += ranks.size();
  }
  Ranks others;
  bool majority = false;
  for (const auto& [value, ranks] : by_value) {
    if (2 * ranks.size() > all) {
      majority = true;
      continue;
    }
    for (const Rank rank : ranks) {
      insert(others, rank);
    }
  }
  return majority ? others : Ranks{};
}

}  // namespace traintrace
