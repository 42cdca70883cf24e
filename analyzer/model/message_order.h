// Messages that both sides have called, and one has behind another message on its stream.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Adds who waits in a message for a rank that waits in an earlier one itself: as where all send
// first.
void add_waits_behind_messages(const Run& run, std::vector<Wait>& waits);

}  // namespace traintrace
