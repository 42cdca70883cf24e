#include "analyzer/model/ids.h"

#include <fmt/format.h>

#include <algorithm>

namespace traintrace {

std::string rank_list(const Ranks& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end].value == ranks[end - 1].value + 1) {
      ++end;
    }
    // Two neighbours are a list, not a range.
    if (end - i < 3) {
      end = i + 1;
    }
    text += text.empty() ? "" : ",";
    text += end - i == 1 ? fmt::format("{}", ranks[i].value)
                         : fmt::format("{}-{}", ranks[i].value, ranks[end - 1].value);
    i = end;
  }
  return text;
}

std::string ranks_text(const Ranks& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", rank_list(ranks));
}

bool contains(const Ranks& ranks, Rank rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

void insert(Ranks& ranks, Rank rank) {
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (place == ranks.end() || *place != rank) {
    ranks.insert(place, rank);
  }
}

}  // namespace traintrace
