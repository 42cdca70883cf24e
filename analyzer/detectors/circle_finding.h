// What findings about ranks that wait for each other have in common.
#pragma once

#include <string_view>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Without certainty and advice.  Of two orders the one that fewer ranks have is blamed.
Finding circle_finding(const Run& run, const Hang& circle, std::string_view code);

// The same with its certainty, as sure as it is that none of them goes on.
Finding ordered_circle_finding(const Run& run, const Hang& circle, std::string_view code);

// Of what nothing else explains.
bool is_circle(const Run& run, const Hang& hang);

}  // namespace traintrace
