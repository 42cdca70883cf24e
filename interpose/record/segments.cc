#include "interpose/record/segments.h"

#define ZSTD_STATIC_LINKING_ONLY  // NOLINT(readability-identifier-naming)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "format/schema.h"
#include "format/segments.h"
#include "interpose/base/file_writing.h"
#include "interpose/base/files.h"
#include "interpose/keeper/copy_place.h"
#include "interpose/record/clock.h"
#include "interpose/record/sections.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr uint64_t kAgainNs = 1'000'000'000;
constexpr uint32_t kRawBytes = 1U << 20;
constexpr uint32_t kMostChunks = 512;
// zstd's fastest ordinary level: a quarter of the size at some 500 MB/s.
constexpr int kLevel = 1;
constexpr size_t kZstdBytes = size_t{4} << 20;
constexpr size_t kPackedBytes = kRawBytes + kRawBytes / 128 + 4096;
constexpr size_t kMemoryBytes = kZstdBytes + kRawBytes + kPackedBytes;

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
  uint64_t inode() const { return status().st_ino; }
  uint64_t bytes() const { return static_cast<uint64_t>(status().st_size); }

 private:
  struct stat status() const {
    struct stat status = {};
    return number_ >= 0 && fstat(number_, &status) == 0 ? status : (struct stat){};
  }

  int number_;
};

}  // namespace

// What an earlier keeper of this process wrote is gone on with, from the end of its last whole
// segment; what it had packed is not packed again.
void Segments::go_on() noexcept {
  const OpenFile file(path_, 0);
  format::SegmentHead head = {};
  const auto read_head = [&] {
    return pread(file.number(), &head, sizeof head, static_cast<off_t>(end_)) == sizeof head &&
           __builtin_memcmp(head.magic, format::kSegmentMagic, sizeof head.magic) == 0 &&
           head.pid == trace_->pid && head.start_time == trace_->start_time;
  };
  const uint64_t bytes = file.bytes();
  const bool ours = bytes == 0 || read_head();
  while (read_head() && head.packed_bytes <= bytes - end_ - sizeof head) {
    end_ += sizeof head + head.packed_bytes;
  }
  inode_ = ours ? file.inode() : 0;
}

bool Segments::start(const char* trace_path, format::FileHeader* memory_of_trace) noexcept {
  void* const memory = mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Text path(path_, sizeof path_);
  const size_t stem = __builtin_strlen(trace_path) - __builtin_strlen(format::kTraceSuffix);
  path.append(trace_path, stem) << format::kSegmentsSuffix;
  if (memory == MAP_FAILED || !path.whole()) {
    return false;
  }
  memory_ = static_cast<char*>(memory);
  trace_ = memory_of_trace;
  events_ = &section_of(trace_, format::kEvents);
  states_ =
      reinterpret_cast<format::ChunkState*>(at(trace_, section_of(trace_, format::kChunkStates)));
  not_before_ns_ = 0;
  end_ = 0;
  inode_ = OpenFile(path_, O_CREAT | O_EXCL).inode();
  if (inode_ == 0) {
    go_on();
  }
  return true;
}

bool Segments::append(const char* bytes, uint64_t count) noexcept {
  const OpenFile file(path_, 0);
  if (inode_ == 0 || file.inode() != inode_ || room_left(file.number(), Storage::kLocal) < count) {
    return false;
  }
  if (!write_at(file.number(), end_, bytes, count)) {
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
  head.start_time = trace_->start_time;
  head.pid = trace_->pid;
  head.chunks = chunks;
  head.raw_bytes = bytes;
  head.packed_bytes = static_cast<uint32_t>(size);
  __builtin_memcpy(packed, &head, sizeof head);
  return append(packed, sizeof head + size);
}

bool Segments::next_released(Walk& walk, uint64_t room, Released& chunk) const noexcept {
  if (walk.count == 0) {
    walk.count =
        load(trace_->ready_bytes[index_of(trace_, format::kEvents)]) / events_->element_bytes;
    walk.first = load(trace_->next_ordinal);
  }
  for (; walk.seen < walk.count; ++walk.seen) {
    const uint64_t index = (walk.first + walk.seen) % walk.count;
    const uint64_t state = load(states_[index].state);
    if (state == 0 || state % 2 != 0 || load(states_[index].kept) == state + 1) {
      continue;
    }
    const char* const from = at(trace_, *events_) + index * events_->element_bytes;
    const auto* const head = reinterpret_cast<const format::EventChunk*>(from);
    const uint64_t bytes = sizeof *head + load(head->committed);
    if (bytes > events_->element_bytes) {
      continue;  // somebody begins it anew
    }
    if (bytes > room) {
      walk.is_cut = true;
      return false;
    }
    ++walk.seen;
    chunk = {index, state / 2, from, static_cast<uint32_t>(bytes), states_[index].records};
    return true;
  }
  return false;
}

bool Segments::is_still(const Released& chunk) const noexcept {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return load(states_[chunk.index].state) == chunk.ordinal * 2;
}

// That it is overwritten is no loss from now on; where it was in the meantime, it was none.
void Segments::is_in_segment(const Released& chunk) noexcept {
  const uint64_t kept = chunk.ordinal * 2 + 1;
  uint64_t found = kept - 1;
  if (!__atomic_compare_exchange_n(&states_[chunk.index].kept, &found, kept, false,
                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
      found != kept) {
    auto* const stats = reinterpret_cast<uint64_t*>(at(trace_, section_of(trace_, format::kStats)));
    __atomic_fetch_sub(&stats[static_cast<int>(format::Stat::RingOverwritten)], chunk.records,
                       __ATOMIC_RELAXED);
  }
}

void Segments::drain() noexcept {
  if (nanoseconds(CLOCK_MONOTONIC) < not_before_ns_) {
    return;
  }
  static Released chosen[kMostChunks];
  char* const raw = memory_ + kZstdBytes;
  Walk walk;
  for (bool more = true; more;) {
    uint32_t chunks = 0;
    uint32_t bytes = 0;
    for (Released chunk;
         chunks < kMostChunks && (more = next_released(walk, kRawBytes - bytes, chunk));) {
      __builtin_memcpy(raw + bytes, chunk.from, chunk.bytes);
      if (is_still(chunk)) {
        chosen[chunks++] = chunk;
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
      is_in_segment(chosen[i]);
    }
  }
}

}  // namespace traintrace
