// How the difference between the memory of two runs is shown.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/memory/memory_diff.h"

namespace traintrace {

// One sentence; empty without a difference.
std::string memory_verdict(const std::vector<MemoryDiff>& diffs);
std::string memory_text(const std::vector<MemoryDiff>& diffs);
nlohmann::ordered_json memory_json(const std::vector<MemoryDiff>& diffs);

}  // namespace traintrace
