#include "analyzer/memory/allocator/holes.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace traintrace {
namespace {

// Of PyTorch: requests up to 1 MiB are served from segments of 2 MiB, all others from larger ones.
constexpr uint64_t kSmallSegment = uint64_t{2} << 20;
constexpr uint64_t kLargest = uint64_t{1} << 60;  // no machine has as much

template <class Map>
void take_one(Map& counts, uint64_t size) {
  const auto found = counts.find(size);
  if (found != counts.end() && --found->second == 0) {
    counts.erase(found);
  }
}

template <class Map>
uint64_t largest_of(const Map& counts, const Map& without) {
  for (auto size = counts.rbegin(); size != counts.rend(); ++size) {
    const auto gone = without.find(size->first);
    if (gone == without.end() || gone->second < size->second) {
      return size->first;
    }
  }
  return 0;
}

}  // namespace

bool is_for_small(const HeldSegment& segment) {
  return (segment.piece != 0 ? segment.piece : segment.bytes) == kSmallSegment;
}

Holes::Divided Holes::divided(uint64_t begin, uint64_t end, const PendingBlocks& pending) {
  Divided sums;
  uint64_t at = begin;
  const auto piece_until = [&](uint64_t to) {
    const uint64_t bytes = to > at ? to - at : 0;
    sums.free += bytes;
    sums.largest = std::max(sums.largest, bytes);
  };
  for (auto wait = pending.lower_bound(begin); wait != pending.end() && wait->first < end; ++wait) {
    piece_until(wait->first);
    at = wait->first + std::min(wait->second.bytes, end - wait->first);
    sums.pending += at - wait->first;
  }
  piece_until(end);
  return sums;
}

void Holes::add(uint64_t address, uint64_t bytes, const HeldSegment& segment, bool is_all,
                const PendingBlocks& pending) {
  if (bytes > kLargest) {
    return;
  }
  Sums& sums = sums_[is_for_small(segment) ? 1 : 0];
  const auto wait = pending.lower_bound(address);
  const bool is_divided = wait != pending.end() && wait->first - address < bytes;
  const Hole hole = {bytes, is_for_small(segment), is_all, is_divided};
  if (!holes_.insert(address, hole)) {
    return;
  }
  if (!is_divided) {
    sums.free += bytes;
    sums.whole += is_all ? bytes : 0;
    ++sums.sizes[bytes];
    return;
  }
  const Divided parts = divided_[address] = divided(address, address + bytes, pending);
  sums.free += parts.free;
  sums.pending += parts.pending;
  ++sums.divided_sizes[bytes];
  ++sums.divided_largest[parts.largest];
}

void Holes::remove(uint64_t address, Hole hole) {
  Sums& sums = sums_[hole.small];
  if (hole.divided == 0) {
    sums.free -= hole.bytes;
    sums.whole -= hole.whole != 0 ? hole.bytes : 0;
    take_one(sums.sizes, hole.bytes);
  } else {
    const Divided& parts = divided_[address];
    sums.free -= parts.free;
    sums.pending -= parts.pending;
    take_one(sums.divided_sizes, hole.bytes);
    take_one(sums.divided_largest, parts.largest);
    divided_.erase(address);
  }
  holes_.erase(address);
}

void Holes::update(const AllocatorReplay& replay, const PendingBlocks& pending, uint64_t begin,
                   uint64_t end) {
  const auto* hole = holes_.before(begin);
  if (hole == nullptr || hole->address + hole->value.bytes < begin) {
    hole = holes_.at_or_behind(begin);
  }
  // Holes that touch those belong to other segments: empty ones may lie side by side by thousands.
  const uint64_t changed_until = end;
  while (hole != nullptr && hole->address <= changed_until) {
    const auto [address, gone] = *hole;
    begin = std::min(begin, address);
    end = std::max(end, address + gone.bytes);
    remove(address, gone);
    hole = holes_.at_or_behind(address);
  }
  const auto& segments = replay.segments();
  auto segment = segments.upper_bound(begin);
  if (segment != segments.begin()) {
    --segment;
  }
  for (; segment != segments.end() && segment->first < end; ++segment) {
    add_between(replay, pending, segment, std::max(begin, segment->first),
                std::min(end, segment->first + segment->second.bytes));
  }
}

void Holes::add_between(const AllocatorReplay& replay, const PendingBlocks& pending,
                        std::map<uint64_t, HeldSegment>::const_iterator segment, uint64_t begin,
                        uint64_t end) {
  const auto& blocks = replay.blocks();
  uint64_t at = begin;
  const auto hole_until = [&](uint64_t to) {
    if (to > at) {
      const bool is_all = at == segment->first && to - at == segment->second.bytes;
      add(at, to - at, segment->second, is_all, pending);
    }
  };
  auto block = blocks.lower_bound(begin);
  if (block != blocks.begin()) {
    const auto& [address, before] = *std::prev(block);
    at = std::max(at, address + before.bytes);
  }
  for (; block != blocks.end() && block->first < end; ++block) {
    hole_until(block->first);
    at = block->first + block->second.bytes;
  }
  hole_until(end);
}

UsableSpace Holes::space(const AllocatorReplay& replay, bool small,
                         const std::vector<Extent>& without) const {
  const Sums& sums = sums_[small ? 1 : 0];
  UsableSpace space = {sums.free, 0, sums.whole, sums.pending, 0};
  std::set<uint64_t> begins;
  for (const Extent& extent : without) {
    for (auto segment = replay.segments().lower_bound(extent.address);
         segment != replay.segments().end() && segment->first - extent.address < extent.bytes;
         ++segment) {
      if (is_for_small(segment->second) == small) {
        begins.insert(segment->first);
      }
    }
  }
  Sizes sizes;
  Sizes divided_sizes;
  Sizes divided_largest;
  for (const uint64_t begin : begins) {
    const uint64_t bytes = replay.segments().at(begin).bytes;
    for (const auto* hole = holes_.at_or_behind(begin);
         hole != nullptr && hole->address - begin < bytes;
         hole = holes_.at_or_behind(hole->address + 1)) {
      if (hole->value.divided == 0) {
        space.free -= hole->value.bytes;
        space.whole -= hole->value.whole != 0 ? hole->value.bytes : 0;
        ++sizes[hole->value.bytes];
      } else {
        const Divided& parts = divided_.at(hole->address);
        space.free -= parts.free;
        space.pending -= parts.pending;
        ++divided_sizes[hole->value.bytes];
        ++divided_largest[parts.largest];
      }
    }
  }
  const uint64_t undivided = largest_of(sums.sizes, sizes);
  space.largest = std::max(undivided, largest_of(sums.divided_largest, divided_largest));
  space.largest_if_done = std::max(undivided, largest_of(sums.divided_sizes, divided_sizes));
  return space;
}

}  // namespace traintrace
