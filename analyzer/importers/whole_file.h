// The bytes of another tool's file.
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
  std::string_view bytes() const { return {bytes_.get(), size_}; }
  TimeNs modified() const { return modified_; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
  TimeNs modified_;
};

// An error: it cannot be read, or is larger than such a file ever is.
Result<WholeFile> read_whole_file(const std::string& path);

}  // namespace traintrace
