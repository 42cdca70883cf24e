#include "nccl/segment.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace simgpu::nccl {
namespace {

constexpr uint64_t kSegmentMagic = 0x31676573'6c63636eULL;
constexpr size_t kPageBytes = 4096;
constexpr uint64_t kDefaultSlots = 8;
// With one slot a ring of ranks that all forward would wait for each other.
constexpr uint64_t kLeastSlots = 2;
constexpr uint64_t kDefaultSlotBytes = uint64_t{512} * 1024;

size_t round_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

uint64_t setting(const char* name, uint64_t fallback, uint64_t least, uint64_t most) {
  const char* text = getenv(name);
  if (!text || !*text) {
    return fallback;
  }
  const uint64_t value = strtoull(text, nullptr, 10);
  return value < least ? least : value > most ? most : value;
}

size_t cells_offset() {
  return round_up(sizeof(SegmentHeader), alignof(RankCell));
}

size_t header_size(uint64_t ranks) {
  return round_up(cells_offset() + ranks * sizeof(RankCell) + 2 * ranks * ranks, kPageBytes);
}

size_t control_size(const SegmentHeader& header) {
  return round_up(sizeof(FifoControl) + header.slot_count * sizeof(ChunkHeader), kPageBytes);
}

size_t fifo_size(const SegmentHeader& header) {
  return control_size(header) + header.slot_count * header.slot_bytes;
}

}  // namespace

std::shared_ptr<Segment> Segment::create(int rank_count) {
  const int fd = memfd_create("simgpu-nccl", MFD_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  SegmentHeader plain{};
  plain.magic = kSegmentMagic;
  plain.rank_count = static_cast<uint32_t>(rank_count);
  plain.slot_count =
      static_cast<uint32_t>(setting("SIMGPU_NCCL_SLOTS", kDefaultSlots, kLeastSlots, 4096));
  plain.slot_bytes =
      round_up(setting("SIMGPU_NCCL_SLOT_BYTES", kDefaultSlotBytes, 64, 1 << 30), kPageBytes);
  const size_t queues = size_t(kLanes) * plain.rank_count * plain.rank_count;
  const size_t bytes = header_size(plain.rank_count) + queues * fifo_size(plain);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      pwrite(fd, &plain, sizeof plain, 0) != static_cast<ssize_t>(sizeof plain)) {
    close(fd);
    return nullptr;
  }
  return open(fd);
}

std::shared_ptr<Segment> Segment::open(int fd) {
  SegmentHeader plain{};
  if (pread(fd, &plain, sizeof plain, 0) != static_cast<ssize_t>(sizeof plain) ||
      plain.magic != kSegmentMagic) {
    close(fd);
    return nullptr;
  }
  const size_t bytes = header_size(plain.rank_count);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    close(fd);
    return nullptr;
  }
  return std::shared_ptr<Segment>(new Segment(fd, static_cast<SegmentHeader*>(memory), bytes));
}

Segment::Segment(int fd, SegmentHeader* header, size_t header_bytes)
    : fd_(fd), header_(header), header_bytes_(header_bytes) {
  std::byte* base = reinterpret_cast<std::byte*>(header);
  cells_ = reinterpret_cast<RankCell*>(base + cells_offset());
  pairs_ = reinterpret_cast<std::atomic<uint8_t>*>(base + cells_offset() +
                                                   header->rank_count * sizeof(RankCell));
}

Segment::~Segment() {
  const size_t bytes = fifo_size(*header_);
  for (const auto& [index, memory] : mapped_) {
    munmap(memory, bytes);
  }
  munmap(header_, header_bytes_);
  close(fd_);
}

bool Segment::fifo(Lane lane, int from, int to, Fifo& out) {
  const size_t ranks = header_->rank_count;
  const size_t index = static_cast<size_t>(lane) * ranks * ranks + pair(from, to);
  const size_t bytes = fifo_size(*header_);
  const std::lock_guard lock(mutex_);
  std::byte*& memory = mapped_[index];
  if (!memory) {
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                        static_cast<off_t>(header_bytes_ + index * bytes));
    if (mapped == MAP_FAILED) {
      mapped_.erase(index);
      return false;
    }
    memory = static_cast<std::byte*>(mapped);
  }
  out = Fifo(reinterpret_cast<FifoControl*>(memory), memory + control_size(*header_),
             header_->slot_count, header_->slot_bytes, &cells_[from].bell, &cells_[to].bell);
  return true;
}

void Segment::ring_all() const {
  for (uint32_t rank = 0; rank < header_->rank_count; ++rank) {
    cells_[rank].bell.ring();
  }
}

}  // namespace simgpu::nccl
