// A process records into memory, of which a file in the folder is a copy (format/trace_format.h).
// While there is that memory, it says more than the copy.
#pragma once

#include <string>
#include <vector>

#include "analyzer/reader/files/trace_bytes.h"
#include "format/trace_format.h"

namespace traintrace {

// The newest state of what the file at `path` is a copy of: the memory, if it is on this machine
// and may be read; else the file itself.
Result<TraceBytes> open_newest(const std::string& path);

// Memories on this machine that would be copied to this folder and were not yet: paths to read,
// sorted.
std::vector<std::string> memories_not_copied(const std::string& folder);

// Where traces go that their folder cannot hold: /tmp/traintrace-UID and /var/tmp/traintrace-UID,
// as far as they are there and this user's.
std::vector<std::string> other_folders();
// The traces in those that were to lie in this folder.
std::vector<std::string> copies_in_other_folders(const std::string& folder);
// "/tmp/traintrace-0", those of them that hold traces of whatever folder.
std::string other_folders_with_traces();

}  // namespace traintrace
