// Writes a pack (pack.h).  For both halves: no exceptions, nothing of the C++ runtime.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/pack.h"

namespace traintrace::format {

class PackWriter {
 public:
  PackWriter() noexcept = default;
  ~PackWriter() noexcept;
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  // Into an empty file, open for writing.  `head` lacks magic, version and checksum.  Each returns
  // false where the disk is full or such, as errno says.
  bool begin(int file, const PackHead& head) noexcept;
  // At most kMostBlockBytes, after what was added of that member before.
  bool add(PackMember member, uint64_t offset, const void* bytes, uint32_t size) noexcept;
  // Of a file that is open for reading, its first `bytes`, holes left out.
  bool add_file(PackMember member, int file, uint64_t bytes) noexcept;
  bool end() noexcept;

  uint64_t bytes() const noexcept { return at_; }  // written so far

 private:
  bool append(const void* bytes, size_t size) noexcept;

  int file_ = -1;
  uint64_t at_ = 0;
  uint64_t blocks_ = 0;
  void* context_ = nullptr;  // ZSTD_CCtx
  char* packed_ = nullptr;
  char* raw_ = nullptr;
};

}  // namespace traintrace::format
