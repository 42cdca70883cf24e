// Who held a device's memory when an allocation failed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "analyzer/memory/history.h"

namespace traintrace {

// What memory is for, told by when in the steps it appears and how long it lives.
enum class MemoryRole : uint8_t {
  kUnknown,    // there are no steps, or what would tell was not recorded
  kOptimizer,  // torch/optim allocated it: certain
  kGrowing,    // more is left with each step (memory.growth-leak)
  kWorkspace,  // cuBLAS's, of no line of the job
  kState,      // from before the second step: weights, gradients that are kept
  kKept,       // of a later step, and has lived through a whole one
  kGradients,  // autograd made them, and the optimizer had begun its first step: they were kept
  kPassing,    // of the last step: activations, gradients, temporary copies
  kNew,        // of the last step, from where none before it allocated: no part of each step
};
const char* name_of(MemoryRole role);

enum class PlaceIs : uint8_t {
  kOwn,     // of the allocation
  kBefore,  // of the call before it, by whatever thread: its own has no frame of the job
};

struct MemoryHolder {
  std::string place;   // "train.py:12 in step"; empty: not known
  std::string caller;  // of a helper that several places allocate by; empty: it is none
  PlaceIs place_is = PlaceIs::kOwn;
  MemoryRole role = MemoryRole::kUnknown;
  Owner owner = Owner::kUnknown;
  std::string library;  // "NCCL", "cuBLAS"; empty: it is of none
  uint64_t bytes = 0, blocks = 0;
  std::set<int64_t> steps;  // in which those that are kept were born
};

// What of each of so many steps is kept grows, though it is not known for how long it did.
bool is_left_by_steps(const MemoryHolder& holder);

// By the line of the job and the role, those with most bytes first: blocks of PyTorch's allocator,
// and what others took from the device.  PyTorch's own segments are not among them.
// Where the job stood when a thread without a line of its own, as autograd's are, allocated after
// its stack `after`; empty: it is not known.
std::string place_before(const ProcessTrace& trace, uint32_t after);

std::vector<MemoryHolder> holders_at(const ProcessTrace& trace, const MemoryHistory& history,
                                     const OutOfMemoryText& failure);

}  // namespace traintrace
