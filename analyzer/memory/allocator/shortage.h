// Why an allocation failed for want of memory: what would have had to be otherwise for it to fit.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "analyzer/memory/blocks.h"

namespace traintrace {

enum class ShortageKind : uint8_t {
  kFragmentation,  // joined, the holes of the request's pool would have been enough
  kPendingFree,    // a piece that is large enough was free, and could not be had
  kNeighbour,      // somebody else on the device has the memory
  kLibrary,        // NCCL, cuBLAS or the like in this process have it
  kLimit,          // the device was not even asked: the job had set itself a limit
  kCache,          // PyTorch's allocator holds it unused, and somebody else asked
  kCapacity,       // even with all that the job's own code needs more than there is
  kUnknown,        // what would tell was not recorded
};

// What the failure knew of, in bytes; empty: not known.
struct Shortage {
  const OutOfMemoryText* failure = nullptr;
  ShortageKind kind = ShortageKind::kUnknown;
  uint64_t job = 0;  // live, allocated by the job's own code or by PyTorch for it
  uint64_t libraries = 0;
  std::map<std::string, uint64_t> by_library;  // of these: "NCCL", "cuBLAS"
  uint64_t segment = 0;                        // what was asked of the device for the request
  bool refused = false;                        // that the device refused it is recorded
  bool in_driver_pool = false;  // some of it: the driver keeps there what was freed, unseen
  bool knows_device = true;  // which device ran out, and so what of `job` and `libraries` is on it
  std::optional<uint64_t> idle;          // held by PyTorch's allocator and not in use
  std::optional<uint64_t> holes;         // of that, in the pool that serves such requests
  std::optional<uint64_t> largest_idle;  // piece of these
  std::optional<uint64_t> releasable;    // of `idle`, in segments with nothing else (empty_cache)
  std::optional<uint64_t> free, total;   // of the device: as it was then; as it ever is
  std::optional<uint64_t> others;        // of the device, held by nobody that is known
};

// What PyTorch's allocator had cut from its segments then is known: the segments are no holders.
bool counts_by_blocks(const ProcessTrace& trace, const OutOfMemoryText& failure);

// All that was live then is in the trace.
inline bool is_counted(const OutOfMemoryText& failure) {
  return !failure.held.empty() && failure.not_held == 0;
}

// The last one that the process did not get over; null: there is none.
const OutOfMemoryText* fatal_failure(const ProcessTrace& trace);

// Free on the device, as the job itself asked last; none: it never did.
std::optional<uint64_t> room_left(const ProcessTrace& trace);

// The device that ran out.  Of a thread that never chose one nothing else is known than that it is
// on the only one.
class DeviceOfFailure {
 public:
  DeviceOfFailure(const ProcessTrace& trace, const OutOfMemoryText& failure);
  bool has(const HeldBlockText& block) const;
  uint8_t number() const { return number_; }  // format::kNoDevice: it is not known
  // It may be any of those that the process has memory on.
  bool is_one_of_several() const { return one_of_several_; }

 private:
  uint8_t number_;
  bool only_one_;
  bool one_of_several_ = false;
};

Shortage shortage_of(const ProcessTrace& trace, const OutOfMemoryText& failure);

// By the allocator's own rules: what is free in another pool serves no such request, and where as
// good as all is in use, holes are not what is wrong.
bool would_fit_joined(const Shortage& shortage);

// Had so much of what the process held been free.
bool would_fit_without(const Shortage& shortage, uint64_t bytes);

// What a device of `total` bytes would have had free, were nothing on it but this process.
uint64_t room_alone(const Shortage& shortage);

}  // namespace traintrace
