// Dumps as PyTorch's Flight Recorder writes them, for those who have tools for them.
#pragma once

#include <string>

#include "analyzer/model/run.h"

namespace traintrace {

// Format 2.9, a pickle, one per rank: the newest operations of each communicator.  What such dumps
// have no place for (reductions, roots, streams) is lost.
std::string flight_recorder_dump(const Run& run, const RankState& state);

}  // namespace traintrace
