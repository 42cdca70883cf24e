// Bytes that are read as those of a file, but lie within another one: packed, or in an archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  virtual uint64_t bytes() const = 0;
  // How many bytes could be read from `offset` on: less than asked for only at the end.
  virtual size_t read(uint64_t offset, std::span<std::byte> into) const = 0;
  // What was found to be damaged so far; zeros were read in its place.
  virtual std::vector<ReadError> problems() const { return {}; }
};

}  // namespace traintrace
