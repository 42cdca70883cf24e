#include "device_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>

#include "expandable_segment.h"
#include "profiler.h"

namespace c10sim {
namespace {

// Of PyTorch.
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSmallestBlock = 512;
constexpr size_t kLargestSmall = kMiB;
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kLeastOfOwnSegment = 10 * kMiB;
constexpr size_t kRounding = 2 * kMiB;

size_t rounded(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

size_t block_bytes(size_t bytes) {
  return bytes < kSmallestBlock ? kSmallestBlock : rounded(bytes, kSmallestBlock);
}

size_t segment_bytes(size_t bytes) {
  return bytes <= kLargestSmall       ? kSmallSegment
         : bytes < kLeastOfOwnSegment ? kLargeSegment
                                      : rounded(bytes, kRounding);
}

int report_version() {
  const char* const text = std::getenv("SIMGPU_C10");
  const std::string version = text != nullptr ? text : "2.0";
  return version == "1.6" ? 106 : version == "1.7" ? 107 : version == "1.10" ? 110 : 200;
}

bool wants_expandable() {
  const char* const text = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
  return text != nullptr && std::strstr(text, "expandable_segments:True") != nullptr;
}

size_t device_bytes() {
  size_t free = 0;
  size_t total = 0;
  cudaMemGetInfo(&free, &total);
  return total;
}

}  // namespace

bool BySize::operator()(const Block* a, const Block* b) const {
  return std::tuple(a->stream, a->bytes, a->address) < std::tuple(b->stream, b->bytes, b->address);
}

DeviceAllocator::DeviceAllocator(int device)
    : device_(device), expandable_(wants_expandable()), reports_(report_version()) {}

DeviceAllocator::~DeviceAllocator() = default;

void* DeviceAllocator::allocate(size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  pass_events(false);
  bytes = block_bytes(bytes);
  Pool& pool = bytes <= kLargestSmall ? small_ : large_;
  Block* block = take_cached(pool, bytes, stream);
  block = block != nullptr ? block : new_segment(pool, bytes, stream);
  if (block == nullptr) {
    ++stats_.retries;
    release_cached();
    block = new_segment(pool, bytes, stream);
  }
  return block != nullptr ? take(*block, bytes) : fail(bytes);
}

Block* DeviceAllocator::take_cached(Pool& pool, size_t bytes, cudaStream_t stream) {
  Block key = {stream, nullptr, bytes, &pool};
  const auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->stream != stream) {
    return nullptr;
  }
  Block* const block = *found;
  pool.free.erase(found);
  return block;
}

Block* DeviceAllocator::new_segment(Pool& pool, size_t bytes, cudaStream_t stream) {
  if (expandable_) {
    return expand(pool, bytes, stream);
  }
  const size_t segment = segment_bytes(bytes);
  void* memory = nullptr;
  if (cudaMalloc(&memory, segment) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  stats_.reserved += segment;
  return new Block{stream, static_cast<char*>(memory), segment, &pool};
}

// An unmapped block that is large enough with the free one before it.
Block* DeviceAllocator::find_unmapped(Pool& pool, size_t bytes, cudaStream_t stream) {
  for (Block* const block : pool.unmapped) {
    const Block* const before = block->before;
    const size_t more =
        before != nullptr && pool.free.contains(const_cast<Block*>(before)) ? before->bytes : 0;
    if (block->stream == stream && block->bytes + more >= bytes) {
      return block;
    }
  }
  segments_.push_back(std::make_unique<ExpandableSegment>(
      device_, pool.is_small ? kSmallSegment : kLargeSegment, device_bytes()));
  ExpandableSegment& segment = *segments_.back();
  auto* const block = new Block{stream, segment.base(), segment.bytes(), &pool};
  block->segment = &segment;
  block->mapped = false;
  pool.unmapped.insert(block);
  return block;
}

// Maps the first `bytes` of an unmapped block, and joins it to a free one before it.
bool DeviceAllocator::map_block(Block*& block, size_t bytes) {
  Pool& pool = *block->pool;
  bytes = rounded(bytes, block->segment->granule());
  if (!block->segment->map(block->address, bytes)) {
    return false;
  }
  pool.unmapped.erase(block);
  stats_.reserved += bytes;
  if (bytes < block->bytes) {
    split(*block, bytes);  // what is left is unmapped, too
  }
  block->mapped = true;
  if (Block* const before = block->before; before != nullptr && pool.free.contains(before)) {
    pool.free.erase(before);
    merge(*before, block);
    block = before;
  }
  return true;
}

Block* DeviceAllocator::expand(Pool& pool, size_t bytes, cudaStream_t stream) {
  Block* block = find_unmapped(pool, bytes, stream);
  Block* const before = block->before;
  const size_t there = before != nullptr && pool.free.contains(before) ? before->bytes : 0;
  return map_block(block, bytes - there) ? block : nullptr;
}

bool DeviceAllocator::should_split(const Block& block, size_t bytes) const {
  const size_t rest = block.bytes - bytes;
  return block.pool->is_small || expandable_ ? rest >= kSmallestBlock : rest > kLargestSmall;
}

// The rest goes where it belongs.
void DeviceAllocator::split(Block& block, size_t bytes) {
  auto* const rest = new Block{block.stream, block.address + bytes, block.bytes - bytes, block.pool,
                               &block,       block.behind,          block.segment};
  rest->mapped = block.mapped;
  if (rest->behind != nullptr) {
    rest->behind->before = rest;
  }
  block.behind = rest;
  block.bytes = bytes;
  (rest->mapped ? block.pool->free : block.pool->unmapped).insert(rest);
}

void* DeviceAllocator::take(Block& block, size_t bytes) {
  if (should_split(block, bytes)) {
    split(block, bytes);
  }
  block.allocated = true;
  allocated_[block.address] = &block;
  ++stats_.allocations;
  stats_.allocated += block.bytes;
  stats_.active += block.bytes;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  report(block.address, &block, static_cast<int64_t>(block.bytes));
  return block.address;
}

void* DeviceAllocator::fail(size_t bytes) {
  device_bytes();  // PyTorch asks, for its message
  ++stats_.ooms;
  report_failure(bytes);
  return nullptr;
}

bool DeviceAllocator::free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = allocated_.find(memory);
  if (found == allocated_.end()) {
    return false;
  }
  Block& block = *found->second;
  allocated_.erase(found);
  block.allocated = false;
  const auto bytes = static_cast<int64_t>(block.bytes);
  ++stats_.frees;
  stats_.allocated -= block.bytes;
  if (block.uses.empty()) {
    put_back(block);
  } else {
    insert_events(block);
  }
  report(memory, &block, -bytes);
  return true;
}

bool DeviceAllocator::record_stream(void* memory, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto found = allocated_.find(memory);
  if (found != allocated_.end() && stream != found->second->stream) {
    found->second->uses.insert(stream);
  }
  return found != allocated_.end();
}

void DeviceAllocator::insert_events(Block& block) {
  for (cudaStream_t const stream : block.uses) {
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, stream);
    ++block.events;
    events_[stream].emplace_back(event, &block);
  }
  block.uses.clear();
}

// In the order of each stream: behind one that is not done, the rest waits.
void DeviceAllocator::pass_events(bool wait) {
  for (auto& [stream, waiting] : events_) {
    while (!waiting.empty()) {
      const auto [event, block] = waiting.front();
      if (wait) {
        cudaEventSynchronize(event);
      } else if (cudaEventQuery(event) != cudaSuccess) {
        cudaGetLastError();
        break;
      }
      cudaEventDestroy(event);
      waiting.pop_front();
      if (--block->events == 0) {
        put_back(*block);
      }
    }
  }
}

// `neighbour` is on either side, and goes.
void DeviceAllocator::merge(Block& block, Block* neighbour) {
  if (block.before == neighbour) {
    block.address = neighbour->address;
    block.before = neighbour->before;
    if (block.before != nullptr) {
      block.before->behind = &block;
    }
  } else {
    block.behind = neighbour->behind;
    if (block.behind != nullptr) {
      block.behind->before = &block;
    }
  }
  block.bytes += neighbour->bytes;
  delete neighbour;
}

void DeviceAllocator::put_back(Block& block) {
  stats_.active -= block.bytes;
  auto& free = block.pool->free;
  for (Block* const neighbour : {block.before, block.behind}) {
    if (neighbour != nullptr && free.erase(neighbour) != 0) {
      merge(block, neighbour);
    }
  }
  free.insert(&block);
}

void DeviceAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  release_cached();
}

void DeviceAllocator::release_cached() {
  pass_events(true);
  for (Pool* const pool : {&small_, &large_}) {
    const std::vector<Block*> blocks(pool->free.begin(), pool->free.end());
    for (Block* const block : blocks) {
      if (block->segment != nullptr) {
        unmap(*block);
      } else if (block->before == nullptr && block->behind == nullptr) {
        release(*block);
      }
    }
  }
}

void DeviceAllocator::release(Block& block) {
  cudaFree(block.address);
  stats_.reserved -= block.bytes;
  block.pool->free.erase(&block);
  delete &block;
}

// Whole granules of a free block.
void DeviceAllocator::unmap(Block& block) {
  const size_t granule = block.segment->granule();
  const char* const base = block.segment->base();
  const auto offset = static_cast<size_t>(block.address - base);
  const size_t begin = rounded(offset, granule);
  const size_t end = (offset + block.bytes) / granule * granule;
  if (begin >= end) {
    return;
  }
  cudaStreamSynchronize(block.stream);
  block.segment->unmap(block.segment->base() + begin, end - begin);
  stats_.reserved -= end - begin;
  Block* gone = &block;
  block.pool->free.erase(&block);
  if (begin > offset) {
    split(block, begin - offset);
    gone = block.behind;
    block.pool->free.erase(gone);
    block.pool->free.insert(&block);
  }
  if (gone->bytes > end - begin) {
    split(*gone, end - begin);
  }
  gone->mapped = false;
  for (Block* const neighbour : {gone->before, gone->behind}) {
    if (neighbour != nullptr && gone->pool->unmapped.erase(neighbour) != 0) {
      merge(*gone, neighbour);
    }
  }
  gone->pool->unmapped.insert(gone);
}

C10Stats DeviceAllocator::stats() {
  const std::lock_guard lock(mutex_);
  stats_.inactive_split = 0;
  for (const Pool* const pool : {&small_, &large_}) {
    for (const Block* const block : pool->free) {
      const bool is_part = block->before != nullptr || block->behind != nullptr;
      stats_.inactive_split += is_part ? block->bytes : 0;
    }
  }
  return stats_;
}

std::vector<C10Block> DeviceAllocator::snapshot() {
  const std::lock_guard lock(mutex_);
  std::set<const Block*> firsts;
  const auto add = [&](const Block* block) {
    while (block->before != nullptr) {
      block = block->before;
    }
    firsts.insert(block);
  };
  for (const auto& [address, block] : allocated_) {
    add(block);
  }
  for (const Pool* const pool : {&small_, &large_}) {
    std::for_each(pool->free.begin(), pool->free.end(), add);
    std::for_each(pool->unmapped.begin(), pool->unmapped.end(), add);
  }
  for (const auto& [stream, waiting] : events_) {
    for (const auto& [event, block] : waiting) {
      add(block);
    }
  }
  std::vector<C10Block> all;
  for (const Block* first : firsts) {
    const char* segment = nullptr;
    for (const Block* block = first; block != nullptr; block = block->behind) {
      segment = !block->mapped ? nullptr : segment == nullptr ? block->address : segment;
      if (block->mapped) {
        const int state = block->allocated ? 1 : block->events != 0 ? 2 : 0;
        all.push_back({segment, block->address, block->bytes, state, block->segment != nullptr});
      }
    }
  }
  return all;
}

void DeviceAllocator::report(void* address, Block* block, int64_t change) {
  const c10::Device device = {c10::kCuda, static_cast<int8_t>(device_)};
  const uint64_t allocated = stats_.allocated;
  const uint64_t reserved = stats_.reserved;
  switch (reports_) {
    case 106:
      return c10::reportMemoryUsageToProfiler(device, change);
    case 107:
      return c10::reportMemoryUsageToProfiler(block, change, device);
    case 110:
      return c10::reportMemoryUsageToProfiler(address, change, static_cast<int64_t>(allocated),
                                              static_cast<int64_t>(reserved), device);
    default:
      return c10::reportMemoryUsageToProfiler(address, change, size_t{allocated}, size_t{reserved},
                                              device);
  }
}

void DeviceAllocator::report_failure(size_t bytes) {
  const c10::Device device = {c10::kCuda, static_cast<int8_t>(device_)};
  if (reports_ == 110) {
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes),
                                     static_cast<int64_t>(stats_.allocated),
                                     static_cast<int64_t>(stats_.reserved), device);
  } else if (reports_ == 200) {
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), size_t{stats_.allocated},
                                     size_t{stats_.reserved}, device);
  }
}

}  // namespace c10sim
