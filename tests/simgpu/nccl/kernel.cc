#include "nccl/kernel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace simgpu::nccl {
namespace {

MismatchMode read_mode() {
  const char* text = getenv("SIMGPU_NCCL_MISMATCH");
  if (!text || !*text) {
    return MismatchMode::kDefault;
  }
  if (strcmp(text, "hang") == 0) {
    return MismatchMode::kHang;
  }
  if (strcmp(text, "corrupt") == 0) {
    return MismatchMode::kCorrupt;
  }
  if (strcmp(text, "error") == 0) {
    return MismatchMode::kError;
  }
  fprintf(stderr, "simgpu: SIMGPU_NCCL_MISMATCH: '%s' is not hang, corrupt or error\n", text);
  return MismatchMode::kDefault;
}

// Something of the N-th operation of a rank.
struct Injection {
  int rank = -1;
  uint64_t nth = 0;
  ncclResult_t error = ncclSuccess;

  bool hits(int of_rank, std::atomic<uint64_t>& operations) const {
    return of_rank == rank && operations.fetch_add(1) + 1 == nth;
  }
};

Injection read_stall() {
  const char* text = getenv("SIMGPU_NCCL_STALL");
  int rank = 0;
  unsigned long long nth = 0;
  if (!text || !*text) {
    return {};
  }
  if (sscanf(text, "%d@%llu", &rank, &nth) != 2) {
    fprintf(stderr, "simgpu: SIMGPU_NCCL_STALL: '%s' is not RANK@N\n", text);
    return {};
  }
  return {rank, nth, ncclSuccess};
}

Injection read_injection() {
  const char* text = getenv("SIMGPU_NCCL_ASYNC_ERROR");
  int rank = 0;
  unsigned long long nth = 0;
  int error = 0;
  if (!text || !*text) {
    return {};
  }
  if (sscanf(text, "%d@%llu=%d", &rank, &nth, &error) != 3 || error <= 0 ||
      error >= ncclNumResults) {
    fprintf(stderr, "simgpu: SIMGPU_NCCL_ASYNC_ERROR: '%s' is not RANK@N=CODE\n", text);
    return {};
  }
  return {rank, nth, static_cast<ncclResult_t>(error)};
}

}  // namespace

MismatchMode mismatch_mode() {
  static const MismatchMode mode = read_mode();
  return mode;
}

Answer answer_to(Mismatch mismatch) {
  if (mismatch == Mismatch::kNone) {
    return Answer::kTake;
  }
  switch (mismatch_mode()) {
    case MismatchMode::kHang:
      return Answer::kHang;
    case MismatchMode::kCorrupt:
      return Answer::kTake;
    case MismatchMode::kError:
      return Answer::kFail;
    default:
      return mismatch == Mismatch::kStructure ? Answer::kHang : Answer::kTake;
  }
}

bool begin_operation(const KernelRun& run) {
  static const Injection injection = read_injection();
  static std::atomic<uint64_t>& operations = *new std::atomic<uint64_t>(0);
  return !injection.hits(run.comm().rank, operations) || run.fail(injection.error);
}

bool may_move(const KernelRun& run) {
  static const Injection stall = read_stall();
  static std::atomic<uint64_t>& collectives = *new std::atomic<uint64_t>(0);
  return !stall.hits(run.comm().rank, collectives) || run.hang();
}

Part::Part(const Communicator& comm, const Operation& given, uint64_t sequence)
    : operation(given), element_bytes(type_bytes(given.type)), header{} {
  header.sequence = sequence;
  header.total_bytes = header.least_bytes = given.count * element_bytes;
  header.root = is_transfer(given.function) ? comm.rank : given.root;
  header.function = static_cast<uint8_t>(given.function);
  header.type = static_cast<uint8_t>(given.type);
  header.type_bytes = static_cast<uint8_t>(element_bytes);
  header.reduction = static_cast<uint8_t>(given.reduction.kind);
}

Mismatch Part::compare(const ChunkHeader& other) const {
  const bool transfer = is_transfer(operation.function);
  if (!transfer && other.function != header.function) {
    return Mismatch::kStructure;
  }
  // What only copies moves bytes: their type is nothing that anybody could notice.
  const bool reduction = reduces(operation.function);
  if (reduction && other.type_bytes != header.type_bytes) {
    return Mismatch::kStructure;
  }
  if (other.total_bytes != header.total_bytes) {
    return Mismatch::kCount;
  }
  if (reduction && (other.type != header.type || other.reduction != header.reduction)) {
    return Mismatch::kMeaning;
  }
  return !transfer && other.root != header.root ? Mismatch::kRoot : Mismatch::kNone;
}

std::byte* Outlet::slot() {
  std::byte* free = nullptr;
  run_.wait([&] { return (free = fifo_.next_free()) != nullptr; });
  return free;
}

void Outlet::publish(size_t bytes) {
  ChunkHeader header = part_.header;
  header.bytes = bytes;
  header.chunk_count = chunk_count_;
  header.latest_ns = run_.latest_ns();
  fifo_.publish(header);
}

// The peer has no more chunks for this operation although one is expected.
bool Inlet::nothing() {
  data_ = nullptr;
  bytes_ = 0;
  if (mismatch_mode() == MismatchMode::kCorrupt) {
    return true;
  }
  return mismatch_mode() == MismatchMode::kError ? run_.fail(ncclInternalError) : run_.hang();
}

bool Inlet::next(size_t expected) {
  if (exhausted()) {
    return nothing();
  }
  const ChunkHeader* front = nullptr;
  const bool arrived = run_.wait([&] {
    // Chunks of earlier operations that nobody asked for.
    while ((front = fifo_.front()) && front->sequence < part_.header.sequence) {
      fifo_.pop();
    }
    return front != nullptr;
  });
  if (!arrived) {
    return false;
  }
  if (front->sequence > part_.header.sequence) {
    return nothing();
  }
  if (!run_.act(answer_to(part_.compare(*front)))) {
    return false;
  }
  part_.header.least_bytes = std::min(part_.header.least_bytes, front->least_bytes);
  run_.hear_of(front->latest_ns);
  peer_chunk_count_ = front->chunk_count;
  data_ = fifo_.front_data();
  bytes_ = std::min<size_t>(expected, front->bytes);
  return true;
}

void Inlet::pop() {
  if (data_) {
    fifo_.pop();
    data_ = nullptr;
    ++received_;
  }
}

bool Inlet::drain() {
  if (mismatch_mode() != MismatchMode::kCorrupt) {
    return true;
  }
  while (received_ > 0 && received_ < peer_chunk_count_) {
    const ChunkHeader* front = nullptr;
    if (!run_.wait([&] { return (front = fifo_.front()) != nullptr; })) {
      return false;
    }
    if (front->sequence != part_.header.sequence) {
      return true;
    }
    fifo_.pop();
    ++received_;
  }
  return true;
}

}  // namespace simgpu::nccl
