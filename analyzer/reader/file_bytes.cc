#include "analyzer/reader/file_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace traintrace {

std::optional<std::string> bytes_of_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) {
    return std::nullopt;
  }
  std::string bytes;
  char part[16384];
  ssize_t got = 0;
  do {
    got = read(file, part, sizeof part);
    bytes.append(part, got > 0 ? static_cast<size_t>(got) : 0);
  } while (got > 0 || (got < 0 && errno == EINTR));
  close(file);
  return got < 0 && bytes.empty() ? std::nullopt : std::optional(std::move(bytes));
}

}  // namespace traintrace
