// SIMGPU_NCCL_CORRUPT=RANK@N=WHAT: the N-th collective of RANK in its process goes wrong, and
// nobody is told.
#pragma once

#include <cstddef>
#include <vector>

#include "nccl/kernel.h"

namespace simgpu::nccl {

enum class Corruption {
  kNone,
  kDrop,   // zeros go out in place of what the rank has: its part of a sum, or what all receive
  kStale,  // what the rank receives does not come into its memory
  kFlip,   // one bit of what it has received turns round
};

// One collective of one rank.
class Corrupted {
 public:
  // Counts the collective.
  Corrupted(const Communicator& comm, const Operation& given);
  const Operation& operation() const { return operation_; }  // to run in place of that given
  void after();

 private:
  size_t bytes(size_t blocks) const;
  size_t sent_blocks() const;
  size_t received_blocks() const;
  void restore_own();

  const Communicator& comm_;
  const Operation& given_;
  Operation operation_;
  Corruption what_;
  std::vector<std::byte> kept_;
  std::vector<std::byte> zeros_;
};

}  // namespace simgpu::nccl
