// What a person reads of errors where nothing can be used: one line for 1,024 ranks.
#pragma once

#include <vector>

#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// Those of traces that are on other hosts as one, and those of traces that may not be read.
std::vector<ReadError> united_errors(std::vector<ReadError> errors);

// Of a command that needs what was recorded: where there is only evidence beside it, that is what
// is wrong.
std::vector<ReadError> told_errors(const TraceSet& set);

}  // namespace traintrace
