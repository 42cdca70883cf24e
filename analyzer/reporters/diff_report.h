// How the difference between two runs is shown.
#pragma once

#include <string>

#include "analyzer/model/run_diff.h"

namespace traintrace {

std::string diff_text(const RunDiff& diff);
std::string diff_json(const RunDiff& diff);  // schema traintrace.diff/1

}  // namespace traintrace
