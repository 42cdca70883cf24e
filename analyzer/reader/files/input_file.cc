#include "analyzer/reader/files/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "analyzer/reader/files/brought.h"
#include "analyzer/reader/files/within.h"

namespace traintrace {
namespace {

const char* kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "something else";
  }
}

ReadError refusal(const std::string& path, const std::string& message) {
  return {path, 0, message, true, false};
}

ReadError cannot_be_opened(const std::string& path, int problem = errno) {
  ReadError error = refusal(path, std::string("cannot be opened: ") + std::strerror(problem));
  error.forbidden = problem == EACCES || problem == EPERM;
  return error;
}

// What `place` names, without waiting for anybody.
int open_to_read(const std::string& place) {
  return ::open(place.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// Of what lies within another file, for those who need a descriptor.
int copy_in_memory(const ByteSource& source) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  constexpr size_t kPart = 1 << 20;
  const int copy = memfd_create("traintrace-input", MFD_CLOEXEC);
  std::vector<std::byte> part(kPart);
  uint64_t at = 0;
  for (size_t got = 1; copy >= 0 && got > 0 && at < kMostBytes; at += got) {
    got = source.read(at, part);
    if (pwrite(copy, part.data(), got, static_cast<off_t>(at)) != static_cast<ssize_t>(got)) {
      close(copy);
      return -1;
    }
  }
  return copy;
}

// Whether a part of the path that should be a folder is a file: an archive, it may be.
bool leads_through_a_file(int problem) {
  return problem == ENOTDIR;
}

}  // namespace

// First by its name alone (O_PATH), which does nothing to a device; then that same file, whatever
// the name may stand for by now.
Result<InputFile> InputFile::open(const std::string& path) {
  const std::string place = place_of(path);
  if (const auto brought = brought_file(path); brought && brought->forbidden) {
    return cannot_be_opened(path, EACCES);
  }
  const InputFile named(path, ::open(place.c_str(), O_PATH | O_CLOEXEC));
  struct stat status = {};
  if (named.descriptor_ < 0 && leads_through_a_file(errno)) {
    Result<InputFile> within = open_within(place);
    if (within && place != path) {
      within->path_ = path;
    }
    return within;
  }
  if (named.descriptor_ < 0 || fstat(named.descriptor_, &status) != 0) {
    return cannot_be_opened(path);
  }
  if (!S_ISREG(status.st_mode)) {
    return refusal(path, std::string("expected a regular file, found ") + kind_of(status.st_mode));
  }
  InputFile file(path, open_to_read("/proc/self/fd/" + std::to_string(named.descriptor_)));
  if (file.descriptor_ < 0 && errno == ENOENT) {  // without /proc
    file.descriptor_ = open_to_read(place);
  }
  if (file.descriptor_ < 0 || fstat(file.descriptor_, &status) != 0) {
    return cannot_be_opened(path);
  }
  if (!S_ISREG(status.st_mode)) {
    return refusal(path, "expected a regular file: it was exchanged meanwhile");
  }
  file.bytes_ = static_cast<uint64_t>(status.st_size);
  file.modified_ns_ = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      modified_ns_(other.modified_ns_),
      source_(std::move(other.source_)) {}

InputFile::InputFile(std::string path, std::shared_ptr<const ByteSource> source,
                     int64_t modified_ns)
    : path_(std::move(path)),
      descriptor_(-1),
      bytes_(source->bytes()),
      modified_ns_(modified_ns),
      source_(std::move(source)) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

int InputFile::release() {
  if (source_ != nullptr) {
    return copy_in_memory(*source_);
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  return descriptor;
}

std::vector<ReadError> InputFile::problems() const {
  return source_ == nullptr ? std::vector<ReadError>() : source_->problems();
}

size_t InputFile::read(uint64_t offset, std::span<std::byte> into) const {
  if (source_ != nullptr) {
    return source_->read(offset, into);
  }
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

std::string head_of(const std::string& path, size_t bytes) {
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return "";
  }
  std::string head(bytes, '\0');
  head.resize(file->read(0, std::as_writable_bytes(std::span(head))));
  return head;
}

std::string tail_of(const std::string& path, size_t bytes) {
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return "";
  }
  std::string tail(std::min<uint64_t>(bytes, file->bytes()), '\0');
  tail.resize(file->read(file->bytes() - tail.size(), std::as_writable_bytes(std::span(tail))));
  return tail;
}

}  // namespace traintrace
