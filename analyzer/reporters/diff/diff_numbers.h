// The first values that differ between two runs, as diff shows them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/numbers/numbers_diff.h"

namespace traintrace {

std::string numbers_verdict(const NumbersDiff& diff);  // empty: no difference
std::string numbers_text(const NumbersDiff& diff);
nlohmann::ordered_json numbers_json(const NumbersDiff& diff);

}  // namespace traintrace
