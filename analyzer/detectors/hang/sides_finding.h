// What findings about members of a communicator that differ in something have in common.
#pragma once

#include <map>
#include <string>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

using Sides = std::map<std::string, Ranks>;  // by what they have or did

Finding sides_finding(const Communicator& communicator, const Sides& sides, std::string_view code);

}  // namespace traintrace
