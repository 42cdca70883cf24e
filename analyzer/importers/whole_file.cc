#include "analyzer/importers/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace traintrace {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;

ReadError error_of(const std::string& path, const std::string& message) {
  return {path, 0, message, true, false};
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

Result<WholeFile> read_whole_file(const std::string& path) {
  const Descriptor file(path);
  struct stat status = {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) {
    return error_of(path, std::string("cannot be opened: ") + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode) || static_cast<size_t>(status.st_size) > kMostBytes) {
    return error_of(path, "expected a file of at most 1 GiB");
  }
  const auto size = static_cast<size_t>(status.st_size);
  auto bytes = std::make_unique_for_overwrite<char[]>(size + 1);
  size_t got = 0;
  while (got < size) {
    const ssize_t more = read(file.number(), bytes.get() + got, size - got);
    if (more < 0 && errno == EINTR) {
      continue;
    }
    if (more < 0) {
      return error_of(path, std::string("cannot be read: ") + std::strerror(errno));
    }
    if (more == 0) {
      break;
    }
    got += static_cast<size_t>(more);
  }
  const TimeNs modified = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return WholeFile(std::move(bytes), got, modified);
}

}  // namespace traintrace
