#include "analyzer/memory/allocator/allocator_replay.h"

#include <algorithm>
#include <iterator>

namespace traintrace {
namespace {

template <class Extents>
bool is_free(const Extents& extents, uint64_t address, uint64_t bytes) {
  if (bytes == 0 || bytes > ~uint64_t{0} - address) {
    return false;
  }
  const auto next = extents.lower_bound(address);
  if (next != extents.end() && next->first < address + bytes) {
    return false;
  }
  return next == extents.begin() ||
         std::prev(next)->first + std::prev(next)->second.bytes <= address;
}

}  // namespace

std::map<uint64_t, HeldSegment>::iterator AllocatorReplay::segment_around(uint64_t address,
                                                                          uint64_t bytes) {
  const auto next = segments_.upper_bound(address);
  if (next == segments_.begin()) {
    return segments_.end();
  }
  const auto found = std::prev(next);
  const uint64_t offset = address - found->first;
  const bool inside = offset < found->second.bytes && bytes <= found->second.bytes - offset;
  return inside ? found : segments_.end();
}

void AllocatorReplay::join_next(std::map<uint64_t, HeldSegment>::iterator segment) {
  const auto next = std::next(segment);
  if (next != segments_.end() && segment->second.piece != 0 &&
      next->second.piece == segment->second.piece &&
      segment->first + segment->second.bytes == next->first) {
    segment->second.bytes += next->second.bytes;
    segments_.erase(next);
  }
}

bool AllocatorReplay::map(uint64_t address, uint64_t bytes, uint64_t piece) {
  if (!is_free(segments_, address, bytes)) {
    return false;
  }
  const auto segment = segments_.emplace(address, HeldSegment{bytes, piece}).first;
  join_next(segment);
  if (segment != segments_.begin()) {
    join_next(std::prev(segment));
  }
  reserved_ += bytes;
  note_event();
  return true;
}

bool AllocatorReplay::unmap(uint64_t address, uint64_t bytes) {
  const auto segment = segment_around(address, bytes);
  if (segment == segments_.end()) {
    return false;
  }
  const auto [begin, held] = *segment;
  const bool whole = bytes == 0;
  bytes = whole ? held.bytes : bytes;
  if (whole != (held.piece == 0) || (whole && address != begin) ||
      !is_free(blocks_, address, bytes)) {
    return false;
  }
  segments_.erase(segment);
  if (address != begin) {
    segments_[begin] = {address - begin, held.piece};
  }
  if (const uint64_t rest = held.bytes - (address - begin) - bytes; rest != 0) {
    segments_[address + bytes] = {rest, held.piece};
  }
  reserved_ -= bytes;
  note_event();
  return true;
}

bool AllocatorReplay::allocate(uint64_t address, const UsedBlock& block) {
  if (!is_free(blocks_, address, block.bytes) ||
      segment_around(address, block.bytes) == segments_.end() || block.requested > block.bytes) {
    return false;
  }
  blocks_[address] = block;
  allocated_ += block.bytes;
  unrequested_ += block.requested == 0 ? 0 : block.bytes - block.requested;
  note_event();
  return true;
}

bool AllocatorReplay::release(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) {
    return false;
  }
  const auto& [bytes, time, stack, requested] = block->second;
  allocated_ -= bytes;
  unrequested_ -= requested == 0 ? 0 : bytes - requested;
  blocks_.erase(block);
  note_event();
  return true;
}

double AllocatorReplay::overhead_now() const {
  const auto used = static_cast<double>(allocated_);
  return allocated_ == 0 ? 0 : (static_cast<double>(reserved_) - used) / used;
}

void AllocatorReplay::note_event() {
  if (allocated_ > peak_allocated_) {
    peak_allocated_ = allocated_;
    at_peak_use_ = overhead_now();
  }
  if (reserved_ > peak_reserved_) {
    peak_reserved_ = reserved_;
    at_peak_held_ = overhead_now();
  }
  events_ += allocated_ != 0 ? 1 : 0;
  sum_ += overhead_now();
}

Overhead AllocatorReplay::overhead() const {
  const auto held = static_cast<double>(peak_reserved_);
  const auto used = static_cast<double>(peak_allocated_);
  return {events_ == 0 ? 0 : sum_ / static_cast<double>(events_), at_peak_use_, at_peak_held_,
          peak_allocated_ == 0 ? 0 : (held - used) / used};
}

FreeSpace AllocatorReplay::now() const {
  std::vector<Extent> segments;
  std::vector<Extent> blocks;
  for (const auto& [address, segment] : segments_) {
    segments.push_back({address, segment.bytes});
  }
  for (const auto& [address, block] : blocks_) {
    blocks.push_back({address, block.bytes});
  }
  return free_space(std::move(segments), std::move(blocks)).value_or(FreeSpace());
}

}  // namespace traintrace
