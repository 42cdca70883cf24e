// Whether calls that differ are those of two ranks in different turns of a loop.
#pragma once

#include <string>

#include "analyzer/model/run.h"

namespace traintrace {

// One side made a call that it had never made before, where the other went on as in earlier steps:
// "rank 3 called barrier for the first time, .."; empty: it was not so.
std::string loop_text(const Run& run, const Divergence& divergence);

}  // namespace traintrace
