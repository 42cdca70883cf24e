// A device's memory: SIMGPU_MEMORY bytes (default 16 GiB, suffixes K, M, G; the same for every
// device).
//
// Linear memory (cuMemAlloc and pools) is one mapping of one file in memory, laid out first fit.
// Physical memory (cuMemCreate, graph memory) has files of its own: it counts against the capacity,
// not against the layout.  All of it is charged to the table that the processes of the machine
// share (node_account.h).
#pragma once
#include <cuda.h>

#include <cstddef>
#include <memory>
#include <mutex>

#include "cuda/address_map.h"
#include "cuda/arena.h"
#include "cuda/context_memory.h"
#include "cuda/state.h"

namespace simgpu {

constexpr size_t kPageBytes = 4096;
constexpr size_t kGranularityBytes = size_t{2} << 20;  // of physical memory

constexpr size_t round_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

size_t device_capacity();  // SIMGPU_MEMORY

struct DeviceMemory {
  int device = 0;
  int file = -1;
  std::byte* base = nullptr;  // null: could not be mapped
  std::mutex mutex;
  Arena arena{device_capacity()};  // guarded by mutex
};
DeviceMemory& device_memory(int device);

// A piece of linear memory, zeroed, charged; given back when the last owner goes.
class Block {
 public:
  // Null if no hole fits or if all processes together would use more than there is.
  static std::shared_ptr<Block> take(int device, size_t bytes,
                                     size_t alignment = Arena::kAlignment);
  ~Block();
  Block(DeviceMemory& memory, size_t offset, size_t bytes)
      : memory_(memory), offset_(offset), bytes_(bytes) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const { return memory_.base + offset_; }
  size_t offset() const { return offset_; }
  size_t bytes() const { return bytes_; }
  int file() const { return memory_.file; }

 private:
  DeviceMemory& memory_;
  size_t offset_;
  size_t bytes_;
};

// A piece of physical memory: a file in memory, charged to a device (host memory: device -1, not
// charged).
class Physical {
 public:
  static std::shared_ptr<Physical> create(int device, size_t bytes);
  // Takes ownership of a file that another process made, and counts it there.
  static std::shared_ptr<Physical> import(int file, int device, size_t bytes);
  ~Physical();
  Physical(int file, int device, size_t bytes, bool charged)
      : file_(file), device_(device), bytes_(bytes), charged_(charged) {}
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  int file() const { return file_; }
  int device() const { return device_; }
  size_t bytes() const { return bytes_; }

 private:
  int file_;
  int device_;
  size_t bytes_;
  bool charged_;
};

// cuMemAlloc: a block in the address map, owned by the context.
CUresult allocate_linear(Context& context, size_t bytes, RangePtr& out);

// Waits for the work that may use `range`, as cuMemFree does; the sticky error of its context or of
// the current one.
CUresult synchronize_users(const Range& range);

// A new, empty file in memory, closed on exec; -1 with errno.
int create_memory_file(const char* name, size_t bytes);

}  // namespace simgpu
