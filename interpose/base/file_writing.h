// write(2) until all is written.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace traintrace {

inline bool write_at(int file, uint64_t offset, const void* from, uint64_t bytes) noexcept {
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t written = pwrite(file, at, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    at += written;
    bytes -= static_cast<uint64_t>(written);
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace traintrace
