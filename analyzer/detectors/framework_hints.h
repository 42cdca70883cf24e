// What a framework that made the calls often has to do with it.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// A line of evidence for each finding about collectives or messages whose calls show it.
void add_framework_hints(const Run& run, std::vector<Finding>& findings);

}  // namespace traintrace
