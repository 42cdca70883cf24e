// What findings about calls that a communicator was not there for have in common.
#pragma once

#include <string_view>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"
#include "analyzer/model/waiting/misuse.h"

namespace traintrace {

std::vector<Finding> find_misuse(const Run& run, MisuseKind kind, std::string_view code);

}  // namespace traintrace
