// Where in its program a rank is, in the job's own words.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Lines of evidence for errors about hangs and deaths: the open ranges of culprits and victims,
// and notes of culprits.  Without culprits, of those who do not wait.
void add_open_ranges(const Run& run, std::vector<Finding>& findings);

}  // namespace traintrace
