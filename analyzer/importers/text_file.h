// The text of a file that may be compressed with gzip, and may be larger than memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/reader/files/budget.h"
#include "analyzer/reader/result.h"

namespace traintrace {

class TextFile {
 public:
  static Result<TextFile> open(const std::string& path);

  // Up to `bytes` more, behind what `into` has; fewer only at the end.
  std::optional<ReadError> read(std::string& into, size_t bytes);
  bool at_end() const { return at_end_; }
  // How many events of a profile that may hold: a compressed one takes 13 bytes and more for each.
  uint64_t most_events() const { return most_events_; }
  // How much of the file, from 0 to 1.
  double part_read() const;
  const std::string& path() const { return path_; }
  uint64_t offset() const { return offset_; }  // in the uncompressed text

 private:
  struct Close {
    void operator()(void* file) const;
  };
  std::string path_;
  std::unique_ptr<void, Close> file_;
  Budget budget_{{}};   // of what it unpacks to
  uint64_t bytes_ = 0;  // of the file
  uint64_t offset_ = 0;
  uint64_t most_events_ = Budget::kNoLimit;
  bool at_end_ = false;
};

}  // namespace traintrace
