#pragma once

#include <string>
#include <string_view>

#include "analyzer/importers/logs/testimony.h"

namespace traintrace {

// What the watchdogs of PyTorch's process groups print when an operation timed out, also among
// others (c10d's ProcessGroupNCCL.cpp, in the words of 2.4 to 2.10): for each rank and group how
// far it had come.  Ranks without
// "[rankN]:" before the line, which torch's logging writes, are known in the default group only.
bool looks_like_watchdog_log(std::string_view bytes);
Testimony read_watchdog_log(std::string_view bytes, const std::string& file);

}  // namespace traintrace
