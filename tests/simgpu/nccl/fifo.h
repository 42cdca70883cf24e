// One direction of one pair of ranks: a lock-free single-producer single-consumer queue of chunks
// in shared memory.  Each chunk says which operation it belongs to, so that mismatches can be told.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nccl/bell.h"

namespace simgpu::nccl {

// What the sender believed it was doing.
struct ChunkHeader {
  uint64_t sequence;     // of the operation: per communicator, or per pair for send/recv
  uint64_t bytes;        // payload of this chunk
  uint64_t total_bytes;  // the sender's own size of the operation
  uint64_t least_bytes;  // smallest size of the operation that the sender has heard of
  uint64_t chunk_count;  // how many chunks of this operation come through this queue
  int64_t latest_ns;     // when the last of the kernels began that the sender has heard of
  int32_t root;
  uint8_t function;
  uint8_t type;
  uint8_t type_bytes;
  uint8_t reduction;
};

struct FifoControl {
  alignas(64) std::atomic<uint64_t> produced;
  alignas(64) std::atomic<uint64_t> consumed;
  alignas(64) ChunkHeader headers[];
};

// A view of one queue; cheap to copy.  `consumer` and `producer` are the bells of the two ranks.
class Fifo {
 public:
  Fifo() = default;
  Fifo(FifoControl* control, std::byte* slots, uint64_t slot_count, uint64_t slot_bytes,
       Bell* producer, Bell* consumer)
      : control_(control),
        slots_(slots),
        slot_count_(slot_count),
        slot_bytes_(slot_bytes),
        producer_(producer),
        consumer_(consumer) {}

  uint64_t slot_bytes() const { return slot_bytes_; }

  // Producer: the payload of the next chunk, or nullptr while the queue is full.
  std::byte* next_free() const {
    const uint64_t produced = control_->produced.load(std::memory_order_relaxed);
    const bool full = produced - control_->consumed.load(std::memory_order_acquire) >= slot_count_;
    return full ? nullptr : slots_ + produced % slot_count_ * slot_bytes_;
  }
  void publish(const ChunkHeader& header) const {
    const uint64_t produced = control_->produced.load(std::memory_order_relaxed);
    control_->headers[produced % slot_count_] = header;
    control_->produced.store(produced + 1, std::memory_order_release);
    consumer_->ring();
  }

  // Consumer: the oldest chunk, or nullptr while the queue is empty.
  const ChunkHeader* front() const {
    const uint64_t consumed = control_->consumed.load(std::memory_order_relaxed);
    const bool empty = control_->produced.load(std::memory_order_acquire) == consumed;
    return empty ? nullptr : &control_->headers[consumed % slot_count_];
  }
  const std::byte* front_data() const {
    const uint64_t consumed = control_->consumed.load(std::memory_order_relaxed);
    return slots_ + consumed % slot_count_ * slot_bytes_;
  }
  void pop() const {
    control_->consumed.fetch_add(1, std::memory_order_release);
    producer_->ring();
  }

 private:
  FifoControl* control_ = nullptr;
  std::byte* slots_ = nullptr;
  uint64_t slot_count_ = 0;
  uint64_t slot_bytes_ = 0;
  Bell* producer_ = nullptr;
  Bell* consumer_ = nullptr;
};

}  // namespace simgpu::nccl
