// Ranks of which there is no dump, and for which others wait.
#pragma once

#include "analyzer/model/run.h"
#include "analyzer/model/waiting/wait_walk.h"

namespace traintrace {

// `hang`, of `graph`, is about one that left no trace (Fate::kUntraced; else false), and it may
// have begun with one of those that wait for it, by what these called: one may have asked for it by
// mistake, or has stopped short of what the others called after that.
bool may_lie_with_a_waiter(const Run& run, const WaitGraph& graph, const Hang& hang);

// The one of `untraced`, ends of `walk`, that holds up all whom it could wait for itself, so that
// none of the others can be why it has not come, while each of these may wait for those.  It is a
// root wherever else one may be.  Rank -1: there is none.
Rank sole_untraced_root(const Run& run, const WaitWalk& walk, const Ranks& untraced);

}  // namespace traintrace
