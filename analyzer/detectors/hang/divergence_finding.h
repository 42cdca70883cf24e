// What findings about members that did not issue the same collectives have in common.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/run.h"

namespace traintrace {

std::vector<Finding> find_diverged(const Run& run, std::initializer_list<DivergenceKind> kinds,
                                   std::string_view code);

}  // namespace traintrace
