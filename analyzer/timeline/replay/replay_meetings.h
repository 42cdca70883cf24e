// Where ranks wait for each other in a replay: collectives, and messages from rank to rank.
#pragma once

#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/replay/replay_graph.h"

namespace traintrace {

// Meetings of a graph that has all its work, and what of it meets nobody (Process::unmet_ns).
void add_meetings(const Profile& profile, ReplayGraph& graph);

// Whether what delays one rank delays others in a replay as it did in the job: where much of what
// ranks wait in is unmet, it does not.
bool knows_who_waits(const ReplayGraph& graph, const Profile& profile);

}  // namespace traintrace
