// A rank of which there is no dump, and for which all others wait: what one of these has called may
// say that it began there.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// `hang`, of `graph`, is about one that left no trace (Fate::kUntraced; else false).  One of those
// that wait for it may have asked for it by mistake, or has stopped short of what the others called
// after that.
bool may_lie_with_a_waiter(const Run& run, const WaitGraph& graph, const Hang& hang);

}  // namespace traintrace
