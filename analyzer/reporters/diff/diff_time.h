// How the difference between the timelines of two runs is shown.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analyzer/timeline/profile_diff.h"

namespace traintrace {

// One sentence.
std::string time_verdict(const ProfileDiff& diff);
std::string time_text(const ProfileDiff& diff);
nlohmann::ordered_json time_json(const ProfileDiff& diff);

}  // namespace traintrace
