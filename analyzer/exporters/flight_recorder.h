// Dumps as PyTorch's Flight Recorder writes them, for those who have tools for them.
#pragma once

#include <string>

#include "analyzer/judge/completion.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Format 2.9, a pickle, one per rank: the newest operations, as many as all communicators keep,
// with the numbers that a ring would have given them.  What such dumps have no place for
// (reductions, roots, streams) is lost.  Pending are those of which that is known, and those of
// `blocked`.
std::string flight_recorder_dump(const Run& run, const RankState& state,
                                 const BlockedOperations& blocked);

}  // namespace traintrace
