#include "nccl/corruption.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simgpu::nccl {
namespace {

struct Wanted {
  int rank = -1;
  uint64_t nth = 0;
  Corruption what = Corruption::kNone;
};

Wanted read_wanted() {
  const char* const text = getenv("SIMGPU_NCCL_CORRUPT");
  if (!text || !*text) {
    return {};
  }
  int rank = 0;
  unsigned long long nth = 0;
  char what[8] = {};
  if (sscanf(text, "%d@%llu=%7s", &rank, &nth, what) == 3) {
    const Corruption kinds[] = {Corruption::kDrop, Corruption::kStale, Corruption::kFlip};
    const char* const names[] = {"drop", "stale", "flip"};
    for (size_t i = 0; i < 3; ++i) {
      if (strcmp(what, names[i]) == 0) {
        return {rank, nth, kinds[i]};
      }
    }
  }
  fprintf(stderr, "simgpu: SIMGPU_NCCL_CORRUPT: '%s' is not RANK@N=drop|stale|flip\n", text);
  return {};
}

Corruption corruption_of(int rank) {
  static const Wanted wanted = read_wanted();
  static std::atomic<uint64_t>& collectives = *new std::atomic<uint64_t>(0);
  return rank == wanted.rank && collectives.fetch_add(1) + 1 == wanted.nth ? wanted.what
                                                                           : Corruption::kNone;
}

}  // namespace

Corrupted::Corrupted(const Communicator& comm, const Operation& given)
    : comm_(comm), given_(given), operation_(given), what_(corruption_of(comm.rank)) {
  if (what_ == Corruption::kDrop) {
    const auto* const memory = static_cast<const std::byte*>(given.send);
    kept_.assign(memory, memory + bytes(sent_blocks()));  // in place, it would be overwritten
    zeros_.resize(kept_.size());
    operation_.send = zeros_.data();
  } else if (what_ == Corruption::kStale) {
    const auto* const memory = static_cast<const std::byte*>(given.receive);
    kept_.assign(memory, memory + bytes(received_blocks()));
  }
}

size_t Corrupted::bytes(size_t blocks) const {
  return blocks * given_.count * type_bytes(given_.type);
}

size_t Corrupted::sent_blocks() const {
  return given_.function == Function::kReduceScatter ? static_cast<size_t>(comm_.rank_count) : 1;
}

size_t Corrupted::received_blocks() const {
  const bool has_none = given_.function == Function::kReduce && comm_.rank != given_.root;
  const bool gathers = given_.function == Function::kAllGather;
  return has_none ? 0 : gathers ? static_cast<size_t>(comm_.rank_count) : 1;
}

// What it gave itself is as it should be.
void Corrupted::restore_own() {
  auto* const memory = static_cast<std::byte*>(given_.receive);
  if (given_.function == Function::kAllGather) {
    memmove(memory + bytes(static_cast<size_t>(comm_.rank)), kept_.data(), bytes(1));
  } else if (given_.function == Function::kBroadcast && comm_.rank == given_.root) {
    memmove(memory, kept_.data(), bytes(1));
  }
}

void Corrupted::after() {
  auto* const memory = static_cast<std::byte*>(given_.receive);
  const size_t received = bytes(received_blocks());
  switch (what_) {
    case Corruption::kNone:
      break;
    case Corruption::kDrop:
      restore_own();
      break;
    case Corruption::kStale:
      memcpy(memory, kept_.data(), kept_.size());
      break;
    case Corruption::kFlip:
      if (received != 0) {
        const size_t element = type_bytes(given_.type);
        memory[received / 2 / element * element] ^= std::byte{2};
      }
      break;
  }
}

}  // namespace simgpu::nccl
