#include "analyzer/reader/trace_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace traintrace {

Result<TraceBytes> TraceBytes::open(const std::string& path) {
  // Not blocking: somebody may have put a FIFO there.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  if (descriptor < 0) {
    return ReadError{path, 0, std::string("cannot be opened: ") + std::strerror(errno), true};
  }
  TraceBytes file(path, descriptor, 0);
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    return ReadError{path, 0, "expected a regular file", true};
  }
  file.bytes_ = static_cast<uint64_t>(status.st_size);
  return file;
}

TraceBytes TraceBytes::named(std::string path) && {
  path_ = std::move(path);
  return std::move(*this);
}

TraceBytes::TraceBytes(TraceBytes&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(other.descriptor_), bytes_(other.bytes_) {
  other.descriptor_ = -1;
}

TraceBytes::~TraceBytes() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

size_t TraceBytes::read(uint64_t offset, std::span<std::byte> into) const {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t count = pread(descriptor_, into.data() + done, into.size() - done,
                                static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace traintrace
