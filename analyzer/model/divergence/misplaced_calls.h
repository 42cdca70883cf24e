// Calls that a rank made elsewhere instead: on another communicator, or a send or receive where the
// others are in a collective.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/sequences.h"

namespace traintrace {

// Adds to them what is such, in place of the calls skipped or in excess that it looks like.
void find_misplaced_calls(const Run& run, MemberSequences& sequences,
                          std::vector<Divergence>& divergences);

}  // namespace traintrace
