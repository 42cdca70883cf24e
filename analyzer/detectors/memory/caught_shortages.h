// Ranks that ran out of memory and went on, where their calls differ from the others' since.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Evidence for errors about collectives and messages: whose exception was caught has left out the
// rest of that step, and nobody else has.
void add_caught_shortages(const Run& run, std::vector<Finding>& findings);

}  // namespace traintrace
