// What a small file holds, whatever it is: a stream throws where a file can be opened but not read
// (much of /proc/PID, a folder).
#pragma once

#include <optional>
#include <string>

namespace traintrace {

// As much as can be read; nothing: none of it.
std::optional<std::string> bytes_of_file(const std::string& path);

}  // namespace traintrace
