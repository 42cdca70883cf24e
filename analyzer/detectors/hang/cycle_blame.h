// Who of those that wait for each other in a cycle is to blame, and why.
#pragma once

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Adds culprits, certainty and evidence to a finding that has the sides of the cycle; nothing,
// where nothing tells who began.
void blame_in_cycle(const Run& run, const Hang& cycle, Finding& finding);

}  // namespace traintrace
