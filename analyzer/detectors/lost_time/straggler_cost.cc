#include "analyzer/detectors/lost_time/straggler_cost.h"

#include <algorithm>

#include "analyzer/detectors/lost_time/gains.h"
#include "analyzer/timeline/replay/replay.h"
#include "analyzer/timeline/replay/replay_meetings.h"

namespace traintrace {
namespace {

int64_t most_gained(const std::vector<ReplayedTime>& with,
                    const std::vector<ReplayedTime>& without) {
  int64_t most = 0;
  for (size_t device = 0; device < with.size(); ++device) {
    most = std::max(most, with[device].loop_ns - without[device].loop_ns);
  }
  return most;
}

}  // namespace

std::optional<std::vector<int64_t>> delays_by(const Profile& profile,
                                              const std::vector<size_t>& suspects) {
  if (suspects.empty() || !can_replay(profile)) {
    return std::nullopt;
  }
  const ReplayGraph graph = replay_graph(profile);
  if (!knows_who_waits(graph, profile)) {
    return std::nullopt;
  }
  const auto without = [&](const std::vector<size_t>& ranks) {
    return replayed_times(graph, profile, {.late_ranks = ranks});
  };
  const std::vector<ReplayedTime> with_all = without({});
  const std::vector<ReplayedTime> with_none = without(suspects);
  std::vector<int64_t> delays;
  for (const size_t suspect : suspects) {
    int64_t delay = most_gained(with_all, without({suspect}));
    if (suspects.size() > 1) {
      std::vector<size_t> others = suspects;
      std::erase(others, suspect);
      delay = std::max(delay, most_gained(without(others), with_none));
    }
    delays.push_back(delay);
  }
  return delays;
}

}  // namespace traintrace
