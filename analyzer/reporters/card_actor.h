// What a card says of ranks, whether they are culprits or victims.
#pragma once

#include <string>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

// "host a, pid 3005, GPU 2"; of several ranks their host, or how many hosts these are.
std::string who_is(const Run& run, const Ranks& ranks);

}  // namespace traintrace
