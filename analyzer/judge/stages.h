// The stages of the judge, in their order, but for the last: what is explained, and by which rows,
// is up to detectors/.  Each takes the run as those before it left it.
#pragma once

#include "analyzer/judge/block.h"
#include "analyzer/judge/load.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Who is who: ranks, hosts, communicators with their members, clocks.
void assemble(Run& run);

// Which operations belong together, and where the calls of a rank differ from its peers'.
// `read_events`: null, if there are none but those in the traces.
void match(Run& run, const ReadEvents& read_events);

// Where the waiting began: fills Run::waits.
void find_roots(Run& run, Blocked blocked, const ReadEvents& read_events);

}  // namespace traintrace
