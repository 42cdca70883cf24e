// What a small file holds, whatever it is: much of /proc/PID can be opened but not read.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace traintrace {

inline constexpr size_t kMostSmallFileBytes = size_t{256} << 20;

// As much as can be read, up to `most` bytes; nothing: none of it, or it is no regular file.
std::optional<std::string> bytes_of_file(const std::string& path,
                                         size_t most = kMostSmallFileBytes);

}  // namespace traintrace
