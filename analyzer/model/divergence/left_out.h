// A call made twice in a row, where others came between two such in earlier steps: it was made once
// too often, or those others were left out.  The sequences of collectives fit both.
#pragma once

#include "analyzer/model/divergence/narrow_divergences.h"

namespace traintrace {

// Of a call in excess that may be either (Divergence::open), by the events of the rank that made
// it: others were left out where the step began anew between the two, or where that leaves fewer of
// the rank's other calls, of CUDA too, in another place than in earlier steps.
void take_for_left_out(const Run& run, const ReadEvents& read_events, Divergence& divergence);

}  // namespace traintrace
