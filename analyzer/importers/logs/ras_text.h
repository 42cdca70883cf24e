#pragma once

#include <string>
#include <string_view>

#include "analyzer/importers/logs/testimony.h"

namespace traintrace {

// What ncclras prints by default; without the service's first answers.  A status without a rank
// that differs from the others has no witnesses.
bool looks_like_ras_text(std::string_view bytes);
Testimony read_ras_text(std::string_view bytes, const std::string& file);

}  // namespace traintrace
