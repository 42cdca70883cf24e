// The check that nothing is said against the records: no finding says of a rank that it has not
// entered a collective which its own record shows.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// It has entered what others waited in, when all of them had given it up.
bool came_too_late(const Run& run, const Wait& wait, Rank rank);

// Takes back those that say so, and fails if there are any: that is a defect of the analysis.
void withdraw_contradicted(const Run& run, std::vector<Finding>& findings);

}  // namespace traintrace
