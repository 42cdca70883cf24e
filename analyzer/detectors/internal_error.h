// internal.error: stages of the analysis itself that failed.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"

namespace traintrace {

// Adds what has failed so far, if anything has, to findings in the order of the report.  Then
// nothing is called healthy; and where the model of the run failed in part, nothing is more than
// possible.
// `judged` false: there was no run to look at.
void add_internal_errors(std::vector<Finding>& findings, bool judged);

}  // namespace traintrace
