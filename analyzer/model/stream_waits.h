// Waiting that streams hand on: what lies on a stream behind an operation that cannot finish cannot
// begin, and so those who have come to it wait as well, in another communicator perhaps.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Adds to `waits` those that follow from them.
void add_stream_waits(const Run& run, std::vector<Wait>& waits);

}  // namespace traintrace
