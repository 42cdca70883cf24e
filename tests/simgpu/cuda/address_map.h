// Every range of addresses that CUDA knows in this process, and what cuPointerGetAttribute says
// about it.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "cuda/state.h"

namespace simgpu {
class Pool;

enum class RangeKind {
  kDevice,      // cuMemAlloc
  kPool,        // cuMemAllocAsync and imported pool pointers
  kGraph,       // an allocation node
  kVirtual,     // cuMemMap
  kIpc,         // cuIpcOpenMemHandle
  kHost,        // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister
  kManaged,     // cuMemAllocManaged
};

// One range.  Immutable once in the map, but for the atomics.
struct Range {
  uintptr_t base = 0;
  size_t bytes = 0;
  RangeKind kind = RangeKind::kDevice;
  int device = 0;              // -1: physical memory on the host (kVirtual)
  Context* context = nullptr;  // null: belongs to the device, not to a context
  uint64_t id = next_id();
  unsigned flags = 0;  // as given to the call that made it
  CUmemoryPool pool = nullptr;
  std::shared_ptr<Pool> owner;  // kPool: whose piece it is; null if it was imported
  unsigned handle_types = 0;
  uint64_t physical_id = 0;  // kVirtual: the allocation behind it
  std::atomic<bool> sync_memops{false};
  std::atomic<unsigned> readable{~0u};  // bit per device
  std::atomic<unsigned> writable{~0u};
  // The bytes, kept until the last copy that uses them is done, also when the range left the map.
  std::shared_ptr<const void> backing;
  // Where they lie, for other processes; -1: cannot be shared.
  int file = -1;
  size_t file_offset = 0;

  uintptr_t end() const { return base + bytes; }
  bool on_device() const { return kind <= RangeKind::kIpc && device >= 0; }
  static uint64_t next_id();
};
using RangePtr = std::shared_ptr<Range>;

// Keeps a span of memory alive while a copy runs.  More than one range only for neighbouring
// cuMemMap mappings.
struct Pin {
  RangePtr first;
  std::vector<RangePtr> more;
};

// Thread-safe.
class AddressMap {
 public:
  // False if it overlaps a range that is there.
  bool insert(RangePtr range);
  // The range that contains `address`, or null.
  RangePtr find(uintptr_t address) const;
  // True if [address, address + bytes) is wholly inside one range, or inside neighbouring mappings.
  bool pin(uintptr_t address, size_t bytes, Pin& pin) const;
  // Removes the range that begins at `base` if `condition` holds; null if not.
  RangePtr remove(uintptr_t base, const std::function<bool(const Range&)>& condition);
  std::vector<RangePtr> remove_if(const std::function<bool(const Range&)>& condition);
  // All that overlap the span, in order.
  std::vector<RangePtr> overlapping(uintptr_t address, size_t bytes) const;

 private:
  using Ranges = std::map<uintptr_t, RangePtr>;
  Ranges::const_iterator containing(uintptr_t address) const;  // needs the lock

  mutable std::shared_mutex mutex_;
  Ranges ranges_;
};

AddressMap& address_map();

}  // namespace simgpu
