#include "analyzer/timeline/collectives/own_work.h"

#include <algorithm>
#include <limits>

#include "analyzer/timeline/sums.h"

namespace traintrace {

std::vector<int64_t> worked_between(const Timeline& timeline, int32_t device,
                                    const std::vector<LaunchPlace>& collectives,
                                    const std::function<int64_t(const GpuWork&)>& launch_of) {
  std::vector<int64_t> worked(collectives.size(), 0);
  // Work comes in the order of its starts: what it has in common with earlier work of the same part
  // lies before the latest end there.
  std::vector<int64_t> covered_until(collectives.size(), std::numeric_limits<int64_t>::min());
  for (const GpuWork& work : timeline.work) {
    if (work.kind == WorkKind::kCommunication || work.device != device) {
      continue;
    }
    const LaunchPlace place = {launch_of(work), work.start_ns};
    const auto next = std::upper_bound(collectives.begin(), collectives.end(), place);
    if (next == collectives.begin() || next == collectives.end()) {
      continue;
    }
    const auto part = static_cast<size_t>(next - collectives.begin());
    const int64_t begin = std::max(work.start_ns, covered_until[part]);
    worked[part] = added_within(worked[part], std::max<int64_t>(0, work.end_ns - begin));
    covered_until[part] = std::max(covered_until[part], work.end_ns);
  }
  return worked;
}

}  // namespace traintrace
