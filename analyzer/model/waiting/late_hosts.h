// When a host kept others waiting because it had not called yet: a checkpoint, a data loader.  That
// is no measure of how long an operation takes once all have entered it.
#pragma once

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Fills Run::late_hosts, if something may still be under way.  A rank counts only as far as its
// records show it outside of calls: inside one it may have waited for its GPU.  Where the tables
// come without records, those of a few processes are read, and of more where something that all
// have entered does not end.
void find_late_hosts(Run& run, const ReadEvents& read_events);

// From `from` to `until`, without the time in which a host was late.
TimeNs without_late_hosts(const Run& run, TimeNs from, TimeNs until);

}  // namespace traintrace
