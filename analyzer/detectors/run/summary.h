// run.in-progress, of records that leave it open how the run went.
#pragma once

#include <optional>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Dumps that were written before any time limit of theirs had passed, but after a wait that in a
// recorded run would be a hang: a slow step looks the same.  None: nobody waits for so long.
std::optional<Finding> undecided(const Run& run);

// What the rank held that held most.  None: not only files about memory, which tell nothing of what
// ranks did, were read.
std::optional<Finding> memory_alone(const Run& run);

// Ranks have waited for as long as a hang takes, which is not known to be one: no other finding
// makes that superfluous.
bool leaves_wait_open(const Run& run, const Finding& finding);

}  // namespace traintrace
