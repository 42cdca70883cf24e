// Block: which ranks cannot go on, in which operation, and what each of them lacks there.  Comes
// in: a run whose calls are matched.  Goes out: waits, of which find_roots() makes hangs.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/judge/frontier/frontier_block.h"
#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"

namespace traintrace {

struct Blocked {
  std::vector<Wait> waits;
  // Of runs of which only the order of calls is known: then `waits` are in it.
  std::optional<BlockedFrontiers> frontiers;
  std::vector<Wait> within_limits;  // of those runs, while none of their time limits has passed
};

// `read_events`: null, if there are none but those in the traces.  They are read only where the
// tables leave open what holds a stream up.
Blocked block(Run& run, const ReadEvents& read_events);

// Of a run whose streams are known: who waits in what, for whom.  Drops calls of a wrong peer that
// these contradict from its divergences.
std::vector<Wait> waits_in(Run& run);

}  // namespace traintrace
