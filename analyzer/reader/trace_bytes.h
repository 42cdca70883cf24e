// The bytes of a trace, which may be written while they are read.  Read by pread and never mapped:
// a mapped file that somebody truncates kills its reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "analyzer/reader/result.h"

namespace traintrace {

class TraceBytes {
 public:
  static Result<TraceBytes> open(const std::string& path);
  // The same bytes under the name of the file that led to them: what lies beside that, and what is
  // said about it, goes by that name.
  TraceBytes named(std::string path) &&;
  TraceBytes(TraceBytes&& other) noexcept;
  TraceBytes& operator=(TraceBytes&&) = delete;
  TraceBytes(const TraceBytes&) = delete;
  ~TraceBytes();

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // when it was opened

  // How many bytes could be read from `offset` on: less than asked for only at the end of the file.
  size_t read(uint64_t offset, std::span<std::byte> into) const;

  ReadError error(uint64_t offset, std::string message) const {
    return {path_, offset, std::move(message)};
  }

 private:
  TraceBytes(std::string path, int descriptor, uint64_t bytes)
      : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes) {}

  std::string path_;
  int descriptor_;
  uint64_t bytes_;
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
