// HOST.PID.STARTTIME.pointer: says where a trace lies that could not be put into its folder.
#pragma once

#include <optional>
#include <string>

#include "analyzer/reader/result.h"

namespace traintrace {

// The path of the trace.  Nothing: `path` is no pointer file.  An error: it is one, and the trace
// cannot be reached from here.
std::optional<Result<std::string>> read_pointer_file(const std::string& path);

}  // namespace traintrace
