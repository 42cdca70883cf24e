// The one way in which a file is opened that others may have put there: a trace, a dump, a library
// that a process has mapped.  A FIFO would wait for its writer, a device may do anything when it is
// opened, and a file with a lease on it would wait for its holder.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analyzer/reader/files/byte_source.h"
#include "analyzer/reader/result.h"

namespace traintrace {

class InputFile {
 public:
  // Regular files only.  The error says what was found instead.  What lies in a pack or in a tar
  // archive is named as if that were a folder: all.tar/node1.7.9.ttz/node1.7.9.trace.
  static Result<InputFile> open(const std::string& path);
  // Bytes that lie within another file.
  InputFile(std::string path, std::shared_ptr<const ByteSource> source, int64_t modified_ns);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  bool is_within() const { return source_ != nullptr; }  // another file
  uint64_t bytes() const { return bytes_; }              // when it was opened
  int64_t modified_ns() const { return modified_ns_; }   // since the epoch

  // How many bytes could be read from `offset` on: less than asked for only at the end of the file.
  size_t read(uint64_t offset, std::span<std::byte> into) const;

  // The descriptor, which the caller closes.  Of what lies within another file: of a copy in memory
  // (1 GiB of it at most); -1: there can be none.
  int release();
  // What was found damaged while it was read.
  std::vector<ReadError> problems() const;

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  uint64_t bytes_ = 0;
  int64_t modified_ns_ = 0;
  std::shared_ptr<const ByteSource> source_ = nullptr;  // null: the descriptor
};

// Up to `bytes` from the beginning; empty: none can be read.
std::string head_of(const std::string& path, size_t bytes);
std::string tail_of(const std::string& path, size_t bytes);  // up to the end

}  // namespace traintrace
