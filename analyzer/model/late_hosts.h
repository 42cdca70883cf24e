// When a host kept others waiting because it had not called yet: a checkpoint, a data loader.  That
// is no measure of how long an operation takes once all have entered it.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// Fills Run::late_hosts.  A rank counts only as far as its records show it outside of calls: inside
// one it may have waited for its GPU.
void find_late_hosts(Run& run);

// From `from` to `until`, without the time in which a host was late.
TimeNs without_late_hosts(const Run& run, TimeNs from, TimeNs until);

}  // namespace traintrace
