// Whether a setting may have a value, by what settings.def says about it.
#pragma once

#include <string>
#include <string_view>

#include "format/schema.h"

namespace traintrace {

// Empty: it may.  Else why not, in one line.
std::string complaint_about(const format::SettingSpec& setting, std::string_view value);

}  // namespace traintrace
