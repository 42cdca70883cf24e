// What findings about replicas that drift apart have in common (numbers/replicas.h).
#pragma once

#include <string>
#include <string_view>

#include "analyzer/detectors/finding.h"
#include "analyzer/numbers/replicas.h"

namespace traintrace {

// Severity, certainty, culprit and sides of what differs since `since_ns` from the start of the
// run.
void set_drift(const Drift& drift, int64_t since_ns, Finding& finding);

// "17 of the 40 recorded from there on differ"
std::string differing_line(const Drift& drift, size_t from_there_on);

}  // namespace traintrace
