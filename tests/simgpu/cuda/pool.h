// Memory pools: stream-ordered allocation.
//
// A pool takes chunks of linear memory and lays its allocations out inside them.  An allocation is
// usable at once by whatever follows on its stream.  A freed piece becomes pending: the stream that
// freed it may have it again at once, since its own order protects it; everybody else when the free
// was reached, or, if nothing else fits, by waiting for that on the device.
#pragma once
#include <cuda.h>

#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "cuda/memory.h"

namespace simgpu {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(const CUmemPoolProps& properties, int device) : properties_(properties), device_(device) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int device() const { return device_; }
  const CUmemPoolProps& properties() const { return properties_; }

  // An allocation for work that follows on `queue`, after `after` (empty if there is nothing to
  // wait for).
  CUresult allocate(size_t bytes, const std::shared_ptr<Queue>& queue, Context* context,
                    CUmemoryPool handle, RangePtr& range, Ticket& after);
  // The piece at `address`, which left the address map, is free when `ticket` is done.
  void give_after(uintptr_t address, const Ticket& ticket);
  void give_now(uintptr_t address);
  // Addresses that the context allocated.
  std::vector<uintptr_t> addresses_of(const Context& context);

  // Takes finished frees back and releases unused chunks while more than `keep_bytes` are reserved.
  void trim(size_t keep_bytes);
  void trim_to_threshold();

  CUresult set(CUmemPool_attribute attribute, const void* value);
  CUresult get(CUmemPool_attribute attribute, void* value);
  CUresult set_access(const CUmemAccessDesc& wanted);
  CUmemAccess_flags access(const CUmemLocation& location);

 private:
  struct Chunk {
    std::shared_ptr<Block> block;
    Arena arena;
  };
  struct Piece {
    Chunk* chunk;
    size_t offset;
    size_t bytes;
    uintptr_t address() const { return reinterpret_cast<uintptr_t>(chunk->block->data()) + offset; }
  };
  struct Live {
    Piece piece;
    Context* context;
  };
  struct Pending {
    Piece piece;
    Ticket ticket;
  };

  // All need the lock.
  bool take(size_t bytes, const std::shared_ptr<Queue>& queue, Piece& piece);
  bool take_pending(size_t bytes, const Queue* only, Piece& piece, Ticket& ticket);
  bool take_free(size_t bytes, Piece& piece);
  bool grow(size_t bytes);
  bool remove_live(uintptr_t address, Piece& piece);
  void add_pending(Piece piece, const Ticket& ticket);
  void collect_finished();
  RangePtr publish(const Piece& piece, size_t bytes, Context* context, CUmemoryPool handle);

  const CUmemPoolProps properties_;
  const int device_;
  std::mutex mutex_;  // guards what follows
  std::list<Chunk> chunks_;
  std::map<uintptr_t, Live> live_;
  std::map<uintptr_t, Pending> pending_;
  std::map<int, CUmemAccess_flags> access_;
  int follow_events_ = 1, opportunistic_ = 1, internal_dependencies_ = 1;
  uint64_t threshold_ = 0;
  uint64_t reserved_ = 0, reserved_high_ = 0;
  uint64_t used_ = 0, used_high_ = 0;
};

// The chunks of all pools.  Work in a stream may use memory that was freed behind it, so it is
// checked against these, not against single allocations.
AddressMap& pool_chunks();

}  // namespace simgpu

struct CUmemPoolHandle_st {
  std::atomic<bool> alive{false};
  bool is_default = false;
  int file = -1;  // imported pools: the exporter's memory; they cannot allocate
  std::shared_ptr<simgpu::Pool> pool;
};

namespace simgpu {

CUmemoryPool default_pool(int device);
CUmemoryPool current_pool(int device);
void set_current_pool(int device, CUmemoryPool pool);
CUmemoryPool new_pool_handle(std::shared_ptr<Pool> pool);
void retire_pool_handle(CUmemoryPool handle);
// Null if the handle is not alive.
std::shared_ptr<Pool> find_pool(CUmemoryPool handle);
// Lets all pools of a device give unused chunks back, whatever their thresholds.
void release_unused(int device);
// A pointer from another process's pool counts as a chunk of its own, until its free is reached.
void forget_imported(const Range& range);
// Frees what a context that goes away has allocated.
void release_pool_memory(Context& context);

}  // namespace simgpu
