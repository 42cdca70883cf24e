// What a person reads of errors where nothing can be used: one line for 1,024 ranks.
#pragma once

#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

// Those of traces that are on other hosts as one, and those of traces that may not be read.
std::vector<ReadError> united_errors(std::vector<ReadError> errors);

}  // namespace traintrace
