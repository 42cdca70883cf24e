// A process records into memory, of which a file in the folder is a copy (format/trace_format.h).
// While there is that memory, it says more than the copy.
#pragma once

#include <string>
#include <vector>

#include "analyzer/reader/trace_bytes.h"
#include "format/trace_format.h"

namespace traintrace {

// The newest state of what the file at `path` is a copy of: the memory, if it is on this machine
// and may be read; else the file itself.
Result<TraceBytes> open_newest(const std::string& path);

// Memories on this machine that would be copied to this folder and were not yet: paths to read.
std::vector<std::string> memories_not_copied(const std::string& folder);

}  // namespace traintrace
