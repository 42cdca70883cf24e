// Evidence as people read it.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Lines that are the same for several ranks once, with what is indented below them: "each of ranks
// 8-15 (8): main thread waits for the GIL".
std::vector<std::string> fold_ranks(const std::vector<std::string>& lines);
// So, with units and the time of day beside moments of the run.
std::vector<std::string> lines_for_people(const Run& run, const std::vector<std::string>& lines);

}  // namespace traintrace
