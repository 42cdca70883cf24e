// A pack (format/pack.h): the files of one process, read as if they lay unpacked.  Untrusted: every
// head has a checksum, blocks are bounded, and one is unpacked only when it is asked for.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analyzer/reader/files/byte_source.h"
#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/files/within.h"
#include "format/pack.h"

namespace traintrace {

class PackFile : public std::enable_shared_from_this<PackFile> {
 public:
  // By its first bytes.
  static bool is_pack(const InputFile& file);
  // An error: no member of it can be used.
  static Result<std::shared_ptr<PackFile>> open(InputFile file);

  const format::PackHead& head() const { return head_; }
  // Null: there is no such member.
  std::shared_ptr<const ByteSource> member(format::PackMember member);

  size_t read(format::PackMember member, uint64_t offset, std::span<std::byte> into);
  // What was found damaged so far.
  std::vector<ReadError> problems();
  // Reads all of it.
  bool is_whole();
  // Which bytes of that member the block at this place of the file has; none: it has none there.
  PackedBytes bytes_at(format::PackMember member, uint64_t place) const;

 private:
  struct Block {
    uint64_t offset;  // in the member
    uint64_t place;   // of the packed bytes in the file
    uint32_t raw_bytes;
    uint32_t packed_bytes;
    uint64_t checksum;
  };
  struct Unpacked {
    const Block* block = nullptr;
    std::vector<std::byte> bytes;
  };

  explicit PackFile(InputFile file) : file_(std::move(file)) {}
  std::optional<ReadError> read_head();
  void find_blocks();
  bool add_block(const format::PackBlock& block, uint64_t place);
  void complain(uint64_t offset, std::string message, bool truncated);
  const std::vector<std::byte>& unpacked(const Block& block);
  std::vector<std::byte> unpack(const Block& block);

  InputFile file_;
  format::PackHead head_ = {};
  std::vector<Block> blocks_[format::kPackMembers];
  std::mutex mutex_;                // of what follows
  std::vector<Unpacked> unpacked_;  // the last few, the newest last
  std::vector<ReadError> problems_;
};

}  // namespace traintrace
