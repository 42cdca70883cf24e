// The bytes of another tool's file, which gzip or zstd may have packed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

class WholeFile {
 public:
  WholeFile(std::unique_ptr<char[]> bytes, size_t size, TimeNs modified)
      : bytes_(std::move(bytes)), size_(size), modified_(modified) {}
  WholeFile(std::string unpacked, TimeNs modified)
      : unpacked_(std::move(unpacked)), size_(unpacked_.size()), modified_(modified) {}
  std::string_view bytes() const {
    return bytes_ ? std::string_view(bytes_.get(), size_) : std::string_view(unpacked_);
  }
  TimeNs modified() const { return modified_; }

 private:
  std::unique_ptr<char[]> bytes_;  // as it is in the file
  std::string unpacked_;           // else
  size_t size_;
  TimeNs modified_;
};

// An error: it cannot be read, or is larger than such a file ever is.
Result<WholeFile> read_whole_file(const std::string& path);

// The first bytes, and the last; empty: it cannot be read.
std::string content_head(const std::string& path, size_t bytes);
std::string content_tail(const std::string& path, size_t bytes);

}  // namespace traintrace
