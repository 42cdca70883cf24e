#include "analyzer/reader/files/file_bytes.h"

#include <algorithm>

#include "analyzer/reader/files/input_file.h"

namespace traintrace {

// Files of /proc say that they have no bytes.
std::optional<std::string> bytes_of_file(const std::string& path, size_t most) {
  constexpr size_t kPart = 16384;
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return std::nullopt;
  }
  std::string bytes;
  std::byte part[kPart];
  for (size_t got = 1; got > 0 && bytes.size() < most;) {
    const size_t wanted = std::min(kPart, most - bytes.size());
    got = file->read(bytes.size(), std::span(part).first(wanted));
    bytes.append(reinterpret_cast<const char*>(part), got);
  }
  return bytes;
}

}  // namespace traintrace
