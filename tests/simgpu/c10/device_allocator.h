// The caching allocator of one device, after c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.6.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "c10_cuda.h"

namespace c10sim {

class ExpandableSegment;
struct Pool;

// A piece of a segment; a segment is a list of them.
struct Block {
  cudaStream_t stream;
  char* address;
  size_t bytes;
  Pool* pool;
  Block* before = nullptr;
  Block* behind = nullptr;
  ExpandableSegment* segment = nullptr;  // null: of cudaMalloc
  bool allocated = false;
  bool mapped = true;  // of an expandable segment: has memory
  int events = 0;      // of other streams that must pass first
  std::set<cudaStream_t> uses = {};
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const;
};
struct Pool {
  bool is_small;
  std::set<Block*, BySize> free;      // mapped
  std::set<Block*, BySize> unmapped;  // of expandable segments
};

class DeviceAllocator {
 public:
  explicit DeviceAllocator(int device);
  ~DeviceAllocator();
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  void* allocate(size_t bytes, cudaStream_t stream);
  bool free(void* memory);  // false: not one of ours
  bool record_stream(void* memory, cudaStream_t stream);
  void empty_cache();
  C10Stats stats();
  std::vector<C10Block> snapshot();

 private:
  Block* take_cached(Pool& pool, size_t bytes, cudaStream_t stream);
  Block* new_segment(Pool& pool, size_t bytes, cudaStream_t stream);
  Block* expand(Pool& pool, size_t bytes, cudaStream_t stream);
  Block* find_unmapped(Pool& pool, size_t bytes, cudaStream_t stream);
  bool map_block(Block*& block, size_t bytes);
  void split(Block& block, size_t bytes);
  void* take(Block& block, size_t bytes);
  void* fail(size_t bytes);
  void insert_events(Block& block);
  void pass_events(bool wait);
  void put_back(Block& block);
  void merge(Block& block, Block* neighbour);
  void release_cached();
  void release(Block& block);
  void unmap(Block& block);
  bool should_split(const Block& block, size_t bytes) const;
  void report(void* address, Block* block, int64_t change);
  void report_failure(size_t bytes);

  std::recursive_mutex mutex_;  // held while it reports
  int device_;
  bool expandable_;
  int reports_;  // which of c10's functions: version times 100
  Pool small_{true, {}, {}};
  Pool large_{false, {}, {}};
  std::unordered_map<void*, Block*> allocated_;
  std::map<cudaStream_t, std::deque<std::pair<cudaEvent_t, Block*>>> events_;
  std::vector<std::unique_ptr<ExpandableSegment>> segments_;
  C10Stats stats_ = {};
};

}  // namespace c10sim
