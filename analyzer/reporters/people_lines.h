// Evidence as people read it.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// With units, the time of day beside moments of the run, and lines that are the same for several
// ranks once: "each of ranks 8-15 (8) had entered #39 at +1.760 s (22:13:21.760 UTC)".
std::vector<std::string> lines_for_people(const Run& run, const std::vector<std::string>& lines);

}  // namespace traintrace
