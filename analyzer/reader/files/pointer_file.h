// HOST.PID.STARTTIME.pointer: says where a trace lies that could not be put into its folder.
#pragma once

#include <optional>
#include <string>

#include "analyzer/reader/result.h"

namespace traintrace {

// The path of the trace.  Nothing: `path` is no pointer file.  An error: it is one, and the trace
// cannot be reached from here.
std::optional<Result<std::string>> read_pointer_file(const std::string& path);

// That the trace, which cannot be read, is not on this host, although that has the name that the
// pointer `path` gives: hosts may be called alike.  Nothing: it is here, or `path` is no pointer.
std::optional<ReadError> gone_from_here(const std::string& path);

// The folder in which the pointer to it lies, as it was named; empty: none was read.
std::string folder_of_pointer(const ElsewhereTrace& trace);

}  // namespace traintrace
