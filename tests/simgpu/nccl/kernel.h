// The inside of a communicator's kernel: it runs on the stream's own thread and may wait for ever.
#pragma once
#include <nccl.h>
#include <simgpu.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nccl/comm.h"
#include "nccl/fifo.h"
#include "nccl/plan.h"

namespace simgpu::nccl {

// How two ranks can disagree about one operation.
enum class Mismatch { kNone, kStructure, kCount, kMeaning, kRoot };
enum class Answer { kTake, kHang, kFail };

// SIMGPU_NCCL_MISMATCH=hang|corrupt|error, read once; unset:
//   function or element width -> hang         count -> the ranks that expect more hang
//   reduction, type of equal width -> each rank computes as it was told (kTake)
//   root -> each rank plays its own part of the ring (kTake): stale data, or a hang
enum class MismatchMode { kDefault, kHang, kCorrupt, kError };
MismatchMode mismatch_mode();
Answer answer_to(Mismatch mismatch);

class KernelRun {
 public:
  KernelRun(Communicator& comm, uint32_t epoch, const simgpuLaunch& launch)
      : comm_(comm), epoch_(epoch), cancelled_(launch.cancelled), latest_ns_(launch.start_ns) {}

  Communicator& comm() const { return comm_; }
  // When the last of the members' kernels began, of those whose data has come here.
  int64_t latest_ns() const { return latest_ns_; }
  void hear_of(int64_t began_ns) const { latest_ns_ = std::max(latest_ns_, began_ns); }
  // What is launched beside an abort may already have the epoch behind it.
  bool stopped() const {
    return comm_.aborted.load(std::memory_order_relaxed) ||
           comm_.epoch.load(std::memory_order_relaxed) != epoch_ ||
           (cancelled_ && __atomic_load_n(cancelled_, __ATOMIC_RELAXED) != 0);
  }
  // False when stopped.
  template <class Ready>
  bool wait(Ready&& ready) const {
    return wait_on(comm_.cell().bell, ready, [this] { return stopped(); });
  }
  // Both stay until stopped and return false.
  bool hang() const {
    return wait([] { return false; });
  }
  bool fail(ncclResult_t error) const {
    set_state(comm_, error);
    return hang();
  }
  bool act(Answer answer) const {
    return answer == Answer::kTake || (answer == Answer::kHang ? hang() : fail(ncclInternalError));
  }

 private:
  Communicator& comm_;
  const uint32_t epoch_;
  const volatile int* const cancelled_;
  mutable int64_t latest_ns_;
};

// An operation as this rank was told it; `header` goes in front of each of its chunks.
struct Part {
  explicit Part(const Communicator& comm, const Operation& operation, uint64_t sequence);
  Mismatch compare(const ChunkHeader& other) const;

  const Operation& operation;
  size_t element_bytes;
  ChunkHeader header;
};

// The sending end of a queue for one operation.
class Outlet {
 public:
  Outlet(const KernelRun& run, Part& part, const Fifo& fifo, uint64_t chunk_count)
      : run_(run), part_(part), fifo_(fifo), chunk_count_(chunk_count) {}
  // Room for a chunk; nullptr when stopped.
  std::byte* slot();
  void publish(size_t bytes);

 private:
  const KernelRun& run_;
  Part& part_;
  const Fifo fifo_;
  const uint64_t chunk_count_;
};

// The receiving end.
class Inlet {
 public:
  Inlet(const KernelRun& run, Part& part, const Fifo& fifo) : run_(run), part_(part), fifo_(fifo) {}
  // Waits for the next chunk of the operation; false when stopped.  What the peer sent short is not
  // there: bytes() may be less than `expected`.
  bool next(size_t expected);
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void pop();
  // Takes what the peer sends beyond what was expected, where mismatches must not hang.
  bool drain();

 private:
  bool exhausted() const { return received_ > 0 && received_ >= peer_chunk_count_; }
  bool nothing();

  const KernelRun& run_;
  Part& part_;
  const Fifo fifo_;
  const std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t received_ = 0;
  uint64_t peer_chunk_count_ = 0;
};

// All return false when stopped.
bool run_collective(const KernelRun& run, const Operation& operation);
bool run_transfers(const KernelRun& run, const std::vector<Operation>& transfers);
// Counts an operation of this rank; SIMGPU_NCCL_ASYNC_ERROR=RANK@N=CODE ends the N-th of RANK in
// CODE.
bool begin_operation(const KernelRun& run);
// SIMGPU_NCCL_STALL=RANK@N: not in the N-th collective of RANK.
bool may_move(const KernelRun& run);

}  // namespace simgpu::nccl
