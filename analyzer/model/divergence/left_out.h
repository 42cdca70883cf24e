// A call made twice in a row, where others came between two such in earlier steps: it was made once
// too often, or those others were left out.  The sequences of collectives fit both.
#pragma once

#include "analyzer/model/divergence/divergences.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Of a kExtra that may be either (Divergence::open): what leaves fewer of the rank's other calls,
// of CUDA too, in another place than in earlier steps.  `events`: the rank's own trace with its
// events.
void take_for_left_out(const Run& run, const ProcessTrace& events, Divergence& divergence);

}  // namespace traintrace
