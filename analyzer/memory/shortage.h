// Why an allocation failed for want of memory: what would have had to be otherwise for it to fit.
#pragma once

#include <optional>

#include "analyzer/memory/blocks.h"

namespace traintrace {

enum class ShortageKind : uint8_t {
  kFragmentation,  // joined, the holes of the request's pool would have been enough
  kPendingFree,    // a piece that is large enough was free, and could not be had
  kNeighbour,      // somebody else on the device has the memory
  kLibrary,        // NCCL, cuBLAS, cuDNN of this process have it
  kLimit,          // the device was not even asked: the job had set itself a limit
  kCapacity,       // even with all that the job's own code needs more than there is
  kUnknown,        // what would tell was not recorded
};

// What the failure knew of, in bytes; empty: not known.
struct Shortage {
  const OutOfMemoryText* failure = nullptr;
  ShortageKind kind = ShortageKind::kUnknown;
  uint64_t job = 0;  // live, allocated by the job's own code or by PyTorch for it
  uint64_t libraries = 0;
  uint64_t segment = 0;                  // what was asked of the device for the request
  bool refused = false;                  // that the device refused it is recorded
  std::optional<uint64_t> idle;          // held by PyTorch's allocator and not in use
  std::optional<uint64_t> holes;         // of that, in the pool that serves such requests
  std::optional<uint64_t> largest_idle;  // piece of these
  std::optional<uint64_t> free, total;   // of the device
  std::optional<uint64_t> others;        // of the device, held by nobody that is known
};

// All that was live then is in the trace.
inline bool is_counted(const OutOfMemoryText& failure) {
  return !failure.held.empty() && failure.not_held == 0;
}

// The last one that the process did not get over; null: there is none.
const OutOfMemoryText* fatal_failure(const ProcessTrace& trace);

// Free on the device, as the job itself asked last; none: it never did.
std::optional<uint64_t> room_left(const ProcessTrace& trace);

// Of a thread that never chose a device nothing else is known than that it is on the only one.
bool is_on_its_device(const ProcessTrace& trace, const HeldBlockText& block,
                      const OutOfMemoryText& failure);

Shortage shortage_of(const ProcessTrace& trace, const OutOfMemoryText& failure);

}  // namespace traintrace
