#include "analyzer/detectors/lost_time/batch_habit.h"

#include <algorithm>
#include <limits>
#include <set>

#include "analyzer/detectors/lost_time/habit.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

// How many times something comes, what lies in stretches that are next to each other being once.
size_t times_of(const std::set<int64_t>& stretches) {
  size_t times = 0;
  for (const int64_t stretch : stretches) {
    times += stretches.contains(stretch - 1) ? 0 : 1;
  }
  return times;
}

}  // namespace

int64_t longest_batch(const DeviceProfile& device, std::vector<IdleGap> gaps) {
  if (device.by_host || gaps.size() < kFewestGapsByHost) {
    return -1;
  }
  std::sort(gaps.begin(), gaps.end(),
            [](const IdleGap& a, const IdleGap& b) { return a.ns > b.ns; });
  const int64_t usual = gaps[kFewestGapsByHost - 1].ns;
  const int64_t most =
      std::min(usual, std::numeric_limits<int64_t>::max() / kPauseTimes) * kPauseTimes;
  int64_t sum = 0;
  std::set<int64_t> stretches;
  for (const IdleGap& gap : gaps) {
    if (gap.ns <= most) {
      sum = added(sum, gap.ns);
      stretches.insert(stretch_of(device, gap));
    }
  }
  return times_of(stretches) >= 2 && device.share(sum) >= kWarnShareByHost ? most : -1;
}

}  // namespace traintrace
