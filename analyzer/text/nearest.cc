#include "analyzer/text/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace traintrace {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that make `a` into `b`.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> two_before;
  std::vector<size_t> before;
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    two_before = std::exchange(before, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLongestWord = 100;  // the cost is quadratic
  std::string best;
  size_t best_edits = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t edits = word.size() <= kLongestWord ? edits_between(word, candidate) : best_edits;
    if (edits < best_edits) {
      best = candidate;
      best_edits = edits;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string name = nearest(word, candidates);
  return name.empty() ? "" : "; did you mean " + name + "?";
}

}  // namespace traintrace
