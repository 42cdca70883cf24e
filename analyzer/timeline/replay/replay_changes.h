// What a replay leaves out, call by call and work by work.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/replay/replay.h"
#include "analyzer/timeline/replay/replay_graph.h"
#include "analyzer/timeline/spans.h"

namespace traintrace::replay {

// What leaving something out means for one process.
struct Changes {
  std::vector<Span> skipped;         // of its host's time
  std::vector<bool> free_calls;      // these wait for nothing
  std::vector<int64_t> sooner_ns;    // by work: so much sooner after its launch
  std::vector<int64_t> closer_ns;    // so much sooner after what it waited for
  std::vector<bool> takes_no_time;   // by work
  std::vector<bool> ignores_legacy;  // by work: the order of the legacy default stream
  std::vector<float> shares;         // by work: of its time that it takes; empty: all of it
};

// For each process of the graph, in its order.
std::vector<Changes> changes_of(const ReplayGraph& graph, const Profile& profile,
                                const Removal& removal);

}  // namespace traintrace::replay
