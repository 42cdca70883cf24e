#include "format/pack_writer.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming)
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace traintrace::format {
namespace {

constexpr int kLevel = 3;

bool is_zero(const char* bytes, size_t size) {
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

// How many bytes could be read; less than `size` at the end of the file.
size_t read_at(int file, uint64_t offset, char* into, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(file, into + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    done += static_cast<size_t>(got);
  }
  return done;
}

// Where the next bytes are that are no hole; `offset` itself where the file system does not say.
uint64_t next_data(int file, uint64_t offset) {
  const off_t found = lseek(file, static_cast<off_t>(offset), SEEK_DATA);
  if (found < 0) {
    return errno == ENXIO ? UINT64_MAX : offset;
  }
  const uint64_t block = static_cast<uint64_t>(found) / kMostBlockBytes * kMostBlockBytes;
  return block < offset ? offset : block;
}

}  // namespace

PackWriter::~PackWriter() noexcept {
  ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(context_));
  free(packed_);
  free(raw_);
}

bool PackWriter::append(const void* bytes, size_t size) noexcept {
  const char* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = pwrite(file_, from, size, static_cast<off_t>(at_));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    from += written;
    size -= static_cast<size_t>(written);
    at_ += static_cast<uint64_t>(written);
  }
  return true;
}

bool PackWriter::begin(int file, const PackHead& head) noexcept {
  file_ = file;
  context_ = ZSTD_createCCtx();
  packed_ = static_cast<char*>(malloc(ZSTD_COMPRESSBOUND(kMostBlockBytes)));
  raw_ = static_cast<char*>(malloc(kMostBlockBytes));
  if (context_ == nullptr || packed_ == nullptr || raw_ == nullptr) {
    errno = ENOMEM;
    return false;
  }
  PackHead whole = head;
  memcpy(whole.magic, kPackMagic, sizeof whole.magic);
  whole.version = kPackVersion;
  whole.head_bytes = sizeof whole;
  whole.checksum = XXH3_64bits(&whole, offsetof(PackHead, checksum));
  return append(&whole, sizeof whole);
}

bool PackWriter::add(PackMember member, uint64_t offset, const void* bytes,
                     uint32_t size) noexcept {
  if (is_zero(static_cast<const char*>(bytes), size)) {
    return true;
  }
  const size_t packed = ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(context_), packed_,
                                          ZSTD_COMPRESSBOUND(kMostBlockBytes), bytes, size, kLevel);
  const bool is_smaller = ZSTD_isError(packed) == 0 && packed < size;
  PackBlock block = {};
  memcpy(block.magic, kBlockMagic, sizeof block.magic);
  block.member = member;
  block.offset = offset;
  block.raw_bytes = size;
  block.packed_bytes = is_smaller ? static_cast<uint32_t>(packed) : size;
  const void* const from = is_smaller ? packed_ : bytes;
  block.checksum = XXH3_64bits(from, block.packed_bytes);
  block.head_checksum = XXH3_64bits(&block, offsetof(PackBlock, head_checksum));
  ++blocks_;
  return append(&block, sizeof block) && append(from, block.packed_bytes);
}

bool PackWriter::add_file(PackMember member, int file, uint64_t bytes) noexcept {
  uint64_t at = next_data(file, 0);
  while (at < bytes) {
    const uint64_t left = bytes - at;
    const size_t wanted = left < kMostBlockBytes ? static_cast<size_t>(left) : kMostBlockBytes;
    const size_t got = read_at(file, at, raw_, wanted);
    if (got == 0 || !add(member, at, raw_, static_cast<uint32_t>(got))) {
      return false;
    }
    at += got;
    at = at < bytes ? next_data(file, at) : at;
  }
  return true;
}

bool PackWriter::end() noexcept {
  PackBlock block = {};
  memcpy(block.magic, kBlockMagic, sizeof block.magic);
  block.member = kPackEnd;
  block.offset = blocks_;
  block.head_checksum = XXH3_64bits(&block, offsetof(PackBlock, head_checksum));
  return append(&block, sizeof block);
}

}  // namespace traintrace::format
