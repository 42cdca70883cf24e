#include "analyzer/memory/allocator_replay.h"

#include <algorithm>
#include <iterator>

namespace traintrace {

bool AllocatorReplay::is_free(const Extents& extents, uint64_t address, uint64_t bytes) {
  if (bytes == 0 || bytes > ~uint64_t{0} - address) {
    return false;
  }
  const auto next = extents.lower_bound(address);
  if (next != extents.end() && next->first < address + bytes) {
    return false;
  }
  return next == extents.begin() || std::prev(next)->first + std::prev(next)->second <= address;
}

bool AllocatorReplay::is_mapped(uint64_t address, uint64_t bytes) const {
  const auto next = segments_.upper_bound(address);
  if (next == segments_.begin()) {
    return false;
  }
  const auto& [begin, length] = *std::prev(next);
  return address - begin < length && bytes <= length - (address - begin);
}

bool AllocatorReplay::map(uint64_t address, uint64_t bytes) {
  if (!is_free(segments_, address, bytes)) {
    return false;
  }
  segments_[address] = bytes;
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return true;
}

bool AllocatorReplay::unmap(uint64_t address) {
  const auto segment = segments_.find(address);
  if (segment == segments_.end() || !is_free(blocks_, address, segment->second)) {
    return false;
  }
  reserved_ -= segment->second;
  segments_.erase(segment);
  return true;
}

bool AllocatorReplay::allocate(uint64_t address, uint64_t bytes) {
  if (!is_free(blocks_, address, bytes) || !is_mapped(address, bytes)) {
    return false;
  }
  blocks_[address] = bytes;
  allocated_ += bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return true;
}

bool AllocatorReplay::release(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) {
    return false;
  }
  allocated_ -= block->second;
  blocks_.erase(block);
  return true;
}

FreeSpace AllocatorReplay::now() const {
  std::vector<Extent> segments;
  std::vector<Extent> blocks;
  for (const auto& [address, bytes] : segments_) {
    segments.push_back({address, bytes});
  }
  for (const auto& [address, bytes] : blocks_) {
    blocks.push_back({address, bytes});
  }
  return free_space(std::move(segments), std::move(blocks)).value_or(FreeSpace());
}

}  // namespace traintrace
