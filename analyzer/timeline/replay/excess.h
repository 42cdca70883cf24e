// What a rank does beyond the usual between collectives, for a replay without it.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/replay/replay_graph.h"

namespace traintrace {

// Of one rank, in all its groups.
struct Excess {
  // Of its host's time, in ns of the process: what it needs longer than the median of its group
  // from one collective to the next, without the time in calls that wait.  It is taken out of the
  // longest times between calls, down to the length where what is left is the usual.
  std::vector<Span> host;
  // Places of work in the timeline, and the share of its length that is no more than usual.
  std::vector<std::pair<size_t, double>> shares;
};

// `ranks`: in Profile::timelines.  In their order.  Whether any of it delays somebody is not asked.
std::vector<Excess> excess_of(const ReplayGraph& graph, const Profile& profile,
                              const std::vector<size_t>& ranks);

}  // namespace traintrace
