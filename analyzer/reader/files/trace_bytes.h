// The bytes of a trace, which may be written while they are read.  Read by pread and never mapped:
// a mapped file that somebody truncates kills its reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/result.h"

namespace traintrace {

class TraceBytes {
 public:
  static Result<TraceBytes> open(const std::string& path);
  // The same bytes under the name of the file that led to them: what lies beside that, and what is
  // said about it, goes by that name.
  TraceBytes named(std::string path) && {
    name_ = std::move(path);
    return std::move(*this);
  }

  const std::string& path() const { return name_; }
  bool is_within() const { return file_.is_within(); }  // a pack or an archive
  uint64_t bytes() const { return file_.bytes(); }      // when it was opened

  // How many bytes could be read from `offset` on: less than asked for only at the end of the file.
  size_t read(uint64_t offset, std::span<std::byte> into) const { return file_.read(offset, into); }

  // What was found damaged in the file that these lie in, while they were read.
  std::vector<ReadError> problems() const { return file_.problems(); }

  ReadError error(uint64_t offset, std::string message) const {
    return {path(), offset, std::move(message)};
  }

 private:
  explicit TraceBytes(InputFile file) : file_(std::move(file)), name_(file_.path()) {}

  InputFile file_;
  std::string name_;
};

// A value out of bytes that may be fewer than it has (an older trace: the rest is 0) or more (a
// newer one).
template <class T>
T value_from(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), bytes.size() < sizeof(T) ? bytes.size() : sizeof(T));
  return value;
}

}  // namespace traintrace
