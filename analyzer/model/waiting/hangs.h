// Where a hang starts, by who waits for whom (waits.h).
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// `waits` loses those that are none: of ranks that ended by themselves, or early and soon after
// they began to wait.
std::vector<Hang> find_hangs(const Run& run, std::vector<Wait>& waits);

}  // namespace traintrace
