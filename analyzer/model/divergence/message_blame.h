// Who is to blame where two sides of a message disagree.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Joins faults of one kind that have a rank in common.  One rank that has a part in all of several
// is the culprit; of a single one the side that disagrees with all others who tell, or with what it
// did every time before while the other side does not; else it is a tie.
void blame_messages(const Run& run, std::vector<Divergence>& faults);

}  // namespace traintrace
