#include "analyzer/importers/text_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace traintrace {

void TextFile::Close::operator()(void* file) const {
  gzclose(static_cast<gzFile>(file));
}

Result<TextFile> TextFile::open(const std::string& path) {
  constexpr unsigned kBufferBytes = 256 << 10;
  TextFile file;
  file.path_ = path;
  errno = 0;
  const gzFile opened = gzopen(path.c_str(), "rbe");
  if (!opened) {
    return ReadError{path, 0, errno != 0 ? std::strerror(errno) : "no memory", true, false};
  }
  gzbuffer(opened, kBufferBytes);
  file.file_.reset(opened);
  return file;
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
  offset_ += read;
  int code = Z_OK;
  const char* const message = gzerror(file, &code);
  if (got < 0 || (at_end_ && code != Z_OK && code != Z_STREAM_END)) {
    at_end_ = true;
    return ReadError{path_, offset_, code == Z_ERRNO ? std::strerror(errno) : message, false,
                     code == Z_BUF_ERROR};
  }
  return std::nullopt;
}

}  // namespace traintrace
