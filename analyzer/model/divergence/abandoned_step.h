// A rank that ran out of memory, caught that, and left out the rest of its step.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// Of one that seems to have called two in the other order: if it alone had run out of memory
// before, the later call is that of its next step, and it left the earlier one out.
void take_for_abandoned_step(const Run& run, Divergence& found);

}  // namespace traintrace
