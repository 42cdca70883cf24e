// The memory that the ranks of one communicator share: a memfd without a name.
//
//   header | one cell per rank | pair flags | queues (lane, from, to), mapped when first used
//
// The file is sparse: a queue that nobody uses costs nothing.  The kernel frees all of it with the
// last process that has it open, however that process ends.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "nccl/bell.h"
#include "nccl/fifo.h"

namespace simgpu::nccl {

// What one rank of a split told the others.  Two of them: a rank can be one split ahead, never two.
struct SplitCell {
  std::atomic<uint32_t> ordinal;
  std::atomic<int32_t> color;
  std::atomic<int32_t> key;
};

// What a rank with the unique id of a growth told those of its communicator that have none.
struct GrowCell {
  std::atomic<uint32_t> ordinal;
  std::atomic<uint64_t> key;
};

struct alignas(64) RankCell {
  Bell bell;  // rung whenever something changed that this rank may wait for
  std::atomic<uint32_t> attached;
  std::atomic<uint32_t> ring;     // 1 once the rank asked for the ring connection
  std::atomic<uint32_t> tree;     // the same for the tree
  std::atomic<uint32_t> windows;  // how many window registrations the rank has reached
  std::atomic<uint32_t> finalized;
  std::atomic<uint32_t> changes;  // how many times it was suspended and resumed
  std::atomic<uint64_t> gpu;      // equal for ranks on one device
  SplitCell split[2];
  GrowCell grow;
};

struct SegmentHeader {
  uint64_t magic;
  uint32_t rank_count;
  uint32_t slot_count;
  uint64_t slot_bytes;
  std::atomic<uint32_t> attached;
};

enum class Lane { kRing, kTree, kPair };
inline constexpr int kLanes = 3;

// Per process; ranks that are threads or devices of one process share one.  Thread-safe.
class Segment {
 public:
  // Both return nullptr and leave errno when the system refuses.  open() takes over `fd`.
  static std::shared_ptr<Segment> create(int rank_count);
  static std::shared_ptr<Segment> open(int fd);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentHeader& header() const { return *header_; }
  RankCell& cell(int rank) const { return cells_[rank]; }
  int rank_count() const { return static_cast<int>(header_->rank_count); }
  int fd() const { return fd_; }

  // The sending, or receiving, side of the pair asked for its connection.
  std::atomic<uint8_t>& wants_send(int from, int to) const { return pairs_[2 * pair(from, to)]; }
  std::atomic<uint8_t>& wants_receive(int from, int to) const {
    return pairs_[2 * pair(from, to) + 1];
  }

  // False when the queue cannot be mapped.
  bool fifo(Lane lane, int from, int to, Fifo& out);

  void ring_all() const;

 private:
  Segment(int fd, SegmentHeader* header, size_t header_bytes);
  size_t pair(int from, int to) const { return size_t(from) * header_->rank_count + size_t(to); }

  const int fd_;
  SegmentHeader* const header_;
  const size_t header_bytes_;
  RankCell* cells_ = nullptr;
  std::atomic<uint8_t>* pairs_ = nullptr;
  std::mutex mutex_;
  std::map<size_t, std::byte*> mapped_;  // queues by index
};

// The shared memory of the communicator `key`, made by whichever of its ranks comes first.
//
// /dev/shm/simgpu-nccl-KEY tells the ranks where to find it and is removed by the last that
// arrives. A leftover of ranks that died before is replaced, or removed by the next init of any
// communicator. Waits only while another init with the same key is under way; nullptr when stop()
// or, with `error` set, when the system refuses.
class Rendezvous {
 public:
  static std::shared_ptr<Segment> attach(uint64_t key, int rank_count, int rank, uint64_t gpu,
                                         const std::atomic<bool>& stop, int& error);
  // Removes the name if this process made it and the ranks never were complete.
  static void withdraw(uint64_t key, const Segment& segment);
  static void remove_leftovers();
};

}  // namespace simgpu::nccl
