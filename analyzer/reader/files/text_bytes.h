// Text that may be packed by gzip or zstd, as its first bytes say.
#pragma once

#include <optional>
#include <string>

namespace traintrace {

// Up to `most` bytes of it; nothing: none can be read.  A damaged end is left out.
std::optional<std::string> text_of_file(const std::string& path, size_t most);

// Whether a file holds what `traintrace dump` prints.
bool is_dump_text(const std::string& path);

}  // namespace traintrace
