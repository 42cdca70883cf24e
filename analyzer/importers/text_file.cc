#include "analyzer/importers/text_file.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "analyzer/reader/files/input_file.h"

namespace traintrace {
namespace {

// Profiles are packed to a tenth, synthetic ones to a fortieth; a megabyte of zeros to a kilobyte.
constexpr uint64_t kMostRatio = 64;
constexpr uint64_t kFreeBytes = uint64_t{16} << 20;
constexpr uint64_t kLeastEventBytes = 8;
constexpr uint64_t kFreeEvents = 1 << 18;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // before UTF-8

}  // namespace

void TextFile::Close::operator()(void* file) const {
  gzclose(static_cast<gzFile>(file));
}

Result<TextFile> TextFile::open(const std::string& path) {
  constexpr unsigned kBufferBytes = 256 << 10;
  TextFile file;
  file.path_ = path;
  Result<InputFile> named = InputFile::open(path);
  if (!named) {
    return named.error();
  }
  const int descriptor = named->release();
  const gzFile opened = gzdopen(descriptor, "rb");
  if (!opened) {
    close(descriptor);
    return ReadError{path, 0, "no memory", true, false};
  }
  gzbuffer(opened, kBufferBytes);
  if (gzdirect(opened) == 0) {
    file.budget_ = Budget({.bytes = kFreeBytes + kMostRatio * named->bytes()});
    file.most_events_ = kFreeEvents + named->bytes() / kLeastEventBytes;
  }
  file.bytes_ = named->bytes();
  file.file_.reset(opened);
  return file;
}

double TextFile::part_read() const {
  const z_off_t at = gzoffset(static_cast<gzFile>(file_.get()));
  return at <= 0 || bytes_ == 0
             ? 0
             : std::min(1.0, static_cast<double>(at) / static_cast<double>(bytes_));
}

std::optional<ReadError> TextFile::read(std::string& into, size_t bytes) {
  constexpr size_t kMost = 1 << 30;  // gzread takes an int
  const size_t before = into.size();
  into.resize(before + std::min(bytes, kMost));
  const auto file = static_cast<gzFile>(file_.get());
  errno = 0;
  const int got = gzread(file, into.data() + before, static_cast<unsigned>(into.size() - before));
  const size_t read = got > 0 ? static_cast<size_t>(got) : 0;
  at_end_ = read < into.size() - before;
  into.resize(before + read);
  if (offset_ == 0 && std::string_view(into).substr(before).starts_with(kByteOrderMark)) {
    into.erase(before, kByteOrderMark.size());
  }
  offset_ += read;
  if (!budget_.take_bytes(read)) {
    at_end_ = true;
    return ReadError{path_, offset_,
                     "expected no more than 64 times what it has packed: the rest is left out",
                     false, true};
  }
  int code = Z_OK;
  std::string_view message = gzerror(file, &code);
  message.remove_prefix(message.starts_with("<fd:") ? message.find(": ") + 2 : 0);
  if (got < 0 || (at_end_ && code != Z_OK && code != Z_STREAM_END)) {
    at_end_ = true;
    return ReadError{path_, offset_,
                     code == Z_ERRNO ? std::string(std::strerror(errno))
                                     : "expected intact gzip data: " + std::string(message),
                     false, code == Z_BUF_ERROR};
  }
  return std::nullopt;
}

}  // namespace traintrace
