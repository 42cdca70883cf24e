// Who waits for whom in the matches that cannot be met: those that stand in one, first on their
// streams, for those that have not issued their part, or whose part lies behind something blocked.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

void add_match_waits(const Run& run, std::vector<Wait>& waits);

}  // namespace traintrace
