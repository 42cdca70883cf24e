// A rank that is there has not come to where the others wait.
#pragma once

#include <string_view>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Hangs that start at a wait of that kind, under that code.
std::vector<Finding> find_missing(const Run& run, WaitKind kind, std::string_view code);

}  // namespace traintrace
