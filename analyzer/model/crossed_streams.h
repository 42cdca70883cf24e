// Collectives and messages that all have called, and that lie on the streams of some ranks in
// another order than on those of the others: none of them can begin.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Adds to `waits` those that follow.
void add_crossed_waits(const Run& run, std::vector<Wait>& waits);

}  // namespace traintrace
