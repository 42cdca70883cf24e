#include "analyzer/detectors/lost_time/line_habits.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

using Line = std::tuple<std::string, std::string, std::string>;

// As many before and after a gap are compared with it as make a habit.
constexpr auto kNeighbours = static_cast<ptrdiff_t>(kFewestGaps);

// Half of those from `first` until `last` are as long as this, or longer.
template <typename Gap>
int64_t length_of_half(Gap first, Gap last) {
  std::vector<int64_t> lengths;
  for (; first != last; ++first) {
    lengths.push_back(first->second);
  }
  const size_t half = std::max<size_t>(1, lengths.size() / 2) - 1;
  const auto usual = lengths.begin() + static_cast<ptrdiff_t>(half);
  std::nth_element(lengths.begin(), usual, lengths.end(), std::greater<>());
  return *usual;
}

}  // namespace

LineHabits::LineHabits(const DeviceProfile& device) {
  if (!device.by_host || device.steps >= 2) {
    return;
  }
  std::unordered_map<int64_t, int64_t>
      whole;  // lengths of gaps with all their parts, by their ends
  for (const IdleSite& site : device.sites) {
    for (const IdleGap& gap : site.gaps) {
      int64_t& ns = whole[gap.until_ns];
      ns = added_within(ns, gap.ns);
    }
  }
  std::map<Line, std::map<int64_t, int64_t>> lines;
  for (const IdleSite& site : device.sites) {
    auto& gaps = lines[{site.call, site.site, site.op}];
    for (const IdleGap& gap : site.gaps) {
      gaps[gap.until_ns] = whole[gap.until_ns];
    }
  }
  for (const auto& [line, by_end] : lines) {
    const std::vector<std::pair<int64_t, int64_t>> gaps(by_end.begin(), by_end.end());
    for (auto gap = gaps.begin(); gap != gaps.end(); ++gap) {
      const auto first = gap - std::min(kNeighbours, gap - gaps.begin());
      const auto last = gap + std::min(kNeighbours + 1, gaps.end() - gap);
      if (gap->second / kPauseTimes > length_of_half(first, last)) {
        pauses_.insert(gap->first);
      }
    }
  }
}

}  // namespace traintrace
