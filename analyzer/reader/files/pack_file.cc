#include "analyzer/reader/files/pack_file.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming)
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "analyzer/reader/files/trace_bytes.h"

namespace traintrace {
namespace {

using format::PackBlock;
using format::PackHead;
using format::PackMember;

constexpr uint64_t kMostMemberBytes = uint64_t{1} << 40;
constexpr size_t kKeptMembers = 8;
constexpr size_t kMostProblems = 16;

// The part of a file's bytes that belongs to one member.
class MemberSource : public ByteSource {
 public:
  MemberSource(std::shared_ptr<PackFile> pack, PackMember member)
      : pack_(std::move(pack)), member_(member) {}
  uint64_t bytes() const override { return pack_->head().member_bytes[member_]; }
  size_t read(uint64_t offset, std::span<std::byte> into) const override {
    return pack_->read(member_, offset, into);
  }
  std::vector<ReadError> problems() const override { return pack_->problems(); }

 private:
  std::shared_ptr<PackFile> pack_;
  PackMember member_;
};

uint64_t hash_of(const void* bytes, size_t size) {
  return XXH3_64bits(bytes, size);
}

}  // namespace

bool PackFile::is_pack(const InputFile& file) {
  std::byte magic[sizeof format::kPackMagic];
  return file.read(0, magic) == sizeof magic &&
         std::memcmp(magic, format::kPackMagic, sizeof magic) == 0;
}

Result<std::shared_ptr<PackFile>> PackFile::open(InputFile file) {
  std::shared_ptr<PackFile> pack(new PackFile(std::move(file)));
  if (auto error = pack->read_head()) {
    return *error;
  }
  pack->find_blocks();
  return pack;
}

std::optional<ReadError> PackFile::read_head() {
  std::byte bytes[sizeof(PackHead)];
  const size_t got = file_.read(0, bytes);
  const auto fatal = [&](uint64_t offset, std::string message, bool truncated) {
    return ReadError{file_.path(), offset, std::move(message), true, truncated};
  };
  if (got < sizeof bytes) {
    return fatal(got, "expected the rest of the head of a pack, 104 bytes; the file ends here",
                 true);
  }
  head_ = value_from<PackHead>(bytes);
  if (head_.version != format::kPackVersion) {
    return fatal(offsetof(PackHead, version),
                 "expected version 1 of a pack, found " + std::to_string(head_.version) +
                     ": read it with the traintrace that wrote it",
                 false);
  }
  if (hash_of(bytes, offsetof(PackHead, checksum)) != head_.checksum) {
    return fatal(offsetof(PackHead, checksum), "expected the checksum of the pack's head", false);
  }
  for (const uint64_t member_bytes : head_.member_bytes) {
    if (member_bytes > kMostMemberBytes) {
      return fatal(offsetof(PackHead, member_bytes), "expected files of at most 1 TiB in a pack",
                   false);
    }
  }
  return std::nullopt;
}

void PackFile::complain(uint64_t offset, std::string message, bool truncated) {
  if (problems_.size() < kMostProblems) {
    problems_.push_back({file_.path(), offset, std::move(message), false, truncated});
  }
}

// False: it cannot be what was written, nor can what comes after it be found.
bool PackFile::add_block(const PackBlock& block, uint64_t place) {
  if (std::memcmp(block.magic, format::kBlockMagic, sizeof block.magic) != 0 ||
      hash_of(&block, offsetof(PackBlock, head_checksum)) != block.head_checksum ||
      block.member >= format::kPackMembers) {
    complain(place, "expected the head of a block, with its checksum", false);
    return false;
  }
  std::vector<Block>& blocks = blocks_[block.member];
  const uint64_t all = head_.member_bytes[block.member];
  const bool in_order =
      blocks.empty() || block.offset >= blocks.back().offset + blocks.back().raw_bytes;
  if (block.raw_bytes == 0 || block.raw_bytes > format::kMostBlockBytes ||
      block.packed_bytes > block.raw_bytes || !in_order || block.offset > all ||
      block.raw_bytes > all - block.offset) {
    complain(place, "expected a block of at most 256 KiB, after the one before it", false);
    return false;
  }
  blocks.push_back(
      {block.offset, place + sizeof block, block.raw_bytes, block.packed_bytes, block.checksum});
  return true;
}

void PackFile::find_blocks() {
  uint64_t count = 0;
  for (uint64_t place = head_.head_bytes;; ++count) {
    std::byte bytes[sizeof(PackBlock)];

    const size_t got = file_.read(place, bytes);
    const auto head = value_from<PackBlock>(bytes);
    if (got < sizeof bytes) {
      complain(place, "the pack is truncated: expected another block; collect it again", true);
      return;
    }
    const bool is_end = head.member == format::kPackEnd &&
                        std::memcmp(head.magic, format::kBlockMagic, sizeof head.magic) == 0;
    if (is_end && hash_of(&head, offsetof(PackBlock, head_checksum)) == head.head_checksum) {
      if (head.offset != count) {
        complain(
            place,
            "expected " + std::to_string(head.offset) + " blocks, found " + std::to_string(count),
            false);
      }
      return;
    }

    if (!add_block(head, place)) {
      return;
    }
    place += sizeof head + head.packed_bytes;
  }
}

std::shared_ptr<const ByteSource> PackFile::member(PackMember member) {
  return head_.member_bytes[member] == 0
             ? nullptr
             : std::make_shared<MemberSource>(shared_from_this(), member);
}

std::vector<std::byte> PackFile::unpack(const Block& block) {
  std::vector<std::byte> packed(block.packed_bytes);
  if (file_.read(block.place, packed) < packed.size()) {
    complain(block.place, "the pack is truncated in a block; collect it again", true);
    return std::vector<std::byte>(block.raw_bytes);
  }
  if (hash_of(packed.data(), packed.size()) != block.checksum) {
    complain(block.place, "expected a block with the checksum of its head", false);
    return std::vector<std::byte>(block.raw_bytes);
  }
  if (block.packed_bytes == block.raw_bytes) {
    return packed;
  }
  std::vector<std::byte> raw(block.raw_bytes);
  const size_t size = ZSTD_decompress(raw.data(), raw.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0 || size != raw.size()) {
    complain(block.place, "expected a frame of zstd with " + std::to_string(raw.size()) + " bytes",
             false);
    std::fill(raw.begin(), raw.end(), std::byte{0});
  }
  return raw;
}

const std::vector<std::byte>& PackFile::unpacked(const Block& block) {
  const auto found = std::find_if(unpacked_.begin(), unpacked_.end(),
                                  [&](const Unpacked& one) { return one.block == &block; });
  if (found != unpacked_.end()) {
    std::rotate(found, found + 1, unpacked_.end());
    return unpacked_.back().bytes;
  }
  if (unpacked_.size() == kKeptMembers) {
    unpacked_.erase(unpacked_.begin());
  }
  unpacked_.push_back({&block, unpack(block)});
  return unpacked_.back().bytes;
}

size_t PackFile::read(PackMember member, uint64_t offset, std::span<std::byte> into) {
  const uint64_t all = head_.member_bytes[member];
  if (offset >= all) {
    return 0;
  }
  into = into.first(static_cast<size_t>(std::min<uint64_t>(into.size(), all - offset)));
  std::fill(into.begin(), into.end(), std::byte{0});
  const std::lock_guard lock(mutex_);
  const std::vector<Block>& blocks = blocks_[member];
  auto block = std::upper_bound(
      blocks.begin(), blocks.end(), offset,
      [](uint64_t at, const Block& one) { return at < one.offset + one.raw_bytes; });
  for (; block != blocks.end() && block->offset < offset + into.size(); ++block) {
    const std::vector<std::byte>& bytes = unpacked(*block);
    const uint64_t from = std::max(offset, block->offset);
    const uint64_t to = std::min(offset + into.size(), block->offset + block->raw_bytes);
    std::memcpy(into.data() + (from - offset), bytes.data() + (from - block->offset), to - from);
  }
  return into.size();
}

bool PackFile::is_whole() {
  const std::lock_guard lock(mutex_);
  for (const std::vector<Block>& blocks : blocks_) {
    for (const Block& block : blocks) {
      unpack(block);
    }
  }
  return problems_.empty();
}

PackedBytes PackFile::bytes_at(PackMember member, uint64_t place) const {
  for (const Block& block : blocks_[member]) {
    if (block.place == place) {
      return {block.offset, block.raw_bytes};
    }
  }
  return {};
}

std::vector<ReadError> PackFile::problems() {
  const std::lock_guard lock(mutex_);
  return problems_;
}

}  // namespace traintrace
