#include "analyzer/timeline/collectives/own_work.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

constexpr int64_t kBeforeAll = std::numeric_limits<int64_t>::min();

}  // namespace

Launches launches_of(const Timeline& timeline) {
  Launches launches;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launches[call.correlation] = &call;
    }
  }
  return launches;
}

std::vector<int64_t> launch_times(const Timeline& timeline, const Launches& launches) {
  std::vector<int64_t> times;
  times.reserve(timeline.work.size());
  std::map<std::pair<int32_t, int32_t>, int64_t> last;  // by device and stream
  for (const GpuWork& work : timeline.work) {
    const auto launch = launches.find(work.correlation);
    const auto before = last.try_emplace({work.device, work.stream}, kBeforeAll).first;
    if (launch != launches.end()) {
      before->second = launch->second->start_ns;
    }
    times.push_back(launches.empty() ? work.start_ns : before->second);
  }
  return times;
}

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
