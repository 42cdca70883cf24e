#include "interpose/segments.h"

#define ZSTD_STATIC_LINKING_ONLY  // NOLINT(readability-identifier-naming)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

#include "format/segments.h"
#include "interpose/clock.h"
#include "interpose/files.h"
#include "interpose/recorder.h"

namespace traintrace {
namespace {

constexpr uint64_t kAgainNs = 1'000'000'000;
constexpr uint64_t kLeftFree = uint64_t{64} << 20;  // as for the trace itself
constexpr uint32_t kRawBytes = 1U << 20;
constexpr uint32_t kMostChunks = 256;
// zstd's fastest ordinary level: a quarter of the size at some 500 MB/s.
constexpr int kLevel = 1;
constexpr size_t kZstdBytes = size_t{4} << 20;
constexpr size_t kPackedBytes = kRawBytes + kRawBytes / 128 + 4096;
constexpr size_t kMemoryBytes = kZstdBytes + kRawBytes + kPackedBytes;

struct Chosen {
  uint64_t index;
  uint64_t ordinal;
};
Chosen g_chosen[kMostChunks];

// Opened for each segment: a program that closes what it does not know would leave us with a number
// that soon means a file of its own.
class OpenFile {
 public:
  OpenFile(const char* path, int flags)
      : number_(open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600)) {}
  ~OpenFile() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return number_; }
  uint64_t inode() const {
    struct stat status = {};
    return number_ >= 0 && fstat(number_, &status) == 0 ? status.st_ino : 0;
  }

 private:
  int number_;
};

bool has_room(int file, uint64_t bytes) {
  struct statvfs status = {};
  return fstatvfs(file, &status) == 0 && status.f_bavail * status.f_frsize >= kLeftFree + bytes;
}

bool write_whole(int file, const char* from, uint64_t bytes, uint64_t offset) {
  while (bytes > 0) {
    const ssize_t written = pwrite(file, from, bytes, static_cast<off_t>(offset));
    if (written <= 0) {
      return false;
    }
    from += written;
    bytes -= static_cast<uint64_t>(written);
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace

bool Segments::start(const char* trace_path, const format::FileHeader* file) noexcept {
  void* const memory = mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Text path(path_, sizeof path_);
  const size_t stem = __builtin_strlen(trace_path) - __builtin_strlen(format::kTraceSuffix);
  path.append(trace_path, stem) << format::kSegmentsSuffix;
  if (memory == MAP_FAILED || !path.whole()) {
    return false;
  }
  memory_ = static_cast<char*>(memory);
  file_ = file;
  not_before_ns_ = 0;
  end_ = 0;
  inode_ = OpenFile(path_, O_CREAT | O_EXCL).inode();
  return true;
}

bool Segments::append(const char* bytes, uint64_t count) noexcept {
  const OpenFile file(path_, 0);
  if (inode_ == 0 || file.inode() != inode_ || !has_room(file.number(), count)) {
    return false;
  }
  if (!write_whole(file.number(), bytes, count, end_)) {
    return false;  // half of one is overwritten by the next
  }
  end_ += count;
  return true;
}

bool Segments::write_segment(uint32_t chunks, uint32_t bytes) noexcept {
  const char* const raw = memory_ + kZstdBytes;
  char* const packed = memory_ + kZstdBytes + kRawBytes;
  ZSTD_CCtx* const zstd = ZSTD_initStaticCCtx(memory_, kZstdBytes);
  format::SegmentHead head = {};
  const size_t size = zstd == nullptr
                          ? 0
                          : ZSTD_compressCCtx(zstd, packed + sizeof head,
                                              kPackedBytes - sizeof head, raw, bytes, kLevel);
  if (zstd == nullptr || ZSTD_isError(size)) {
    return false;
  }
  __builtin_memcpy(head.magic, format::kSegmentMagic, sizeof head.magic);
  head.start_time = file_->start_time;
  head.pid = file_->pid;
  head.chunks = chunks;
  head.raw_bytes = bytes;
  head.packed_bytes = static_cast<uint32_t>(size);
  __builtin_memcpy(packed, &head, sizeof head);
  return append(packed, sizeof head + size);
}

void Segments::drain() noexcept {
  if (nanoseconds(CLOCK_MONOTONIC) < not_before_ns_) {
    return;
  }
  char* const raw = memory_ + kZstdBytes;
  RingWalk walk;
  for (bool more = true; more;) {
    uint32_t chunks = 0;
    uint32_t bytes = 0;
    for (ReleasedChunk chunk;
         chunks < kMostChunks && (more = next_released(walk, kRawBytes - bytes, chunk));) {
      __builtin_memcpy(raw + bytes, chunk.from, chunk.bytes);
      if (is_still(chunk)) {
        g_chosen[chunks++] = {chunk.index, chunk.ordinal};
        bytes += chunk.bytes;
      }
    }
    more = more || walk.is_cut;
    walk.is_cut = false;
    if (chunks == 0) {
      return;
    }
    if (!write_segment(chunks, bytes)) {
      not_before_ns_ = nanoseconds(CLOCK_MONOTONIC) + kAgainNs;
      return;
    }
    for (uint32_t i = 0; i < chunks; ++i) {
      chunk_is_kept(g_chosen[i].index, g_chosen[i].ordinal);
    }
  }
}

}  // namespace traintrace
