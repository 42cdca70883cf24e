#include "analyzer/memory/allocator/free_space.h"

#include <algorithm>

namespace traintrace {
namespace {

// By address; false where two overlap or one does not fit the address space.
bool sort_apart(std::vector<Extent>& extents) {
  std::erase_if(extents, [](const Extent& extent) { return extent.bytes == 0; });
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.address < b.address; });
  for (size_t i = 0; i < extents.size(); ++i) {
    const uint64_t room = i + 1 < extents.size() ? extents[i + 1].address - extents[i].address
                                                 : ~uint64_t{0} - extents[i].address;
    if (extents[i].bytes > room) {
      return false;
    }
  }
  return true;
}

void add_hole(FreeSpace& space, uint64_t from, uint64_t to) {
  if (from < to) {
    const uint64_t bytes = to - from;
    space.holes.push_back({from, bytes});
    space.free += bytes;
    space.largest = std::max(space.largest, bytes);
  }
}

}  // namespace

std::optional<FreeSpace> free_space(std::vector<Extent> segments, std::vector<Extent> blocks) {
  if (!sort_apart(segments) || !sort_apart(blocks)) {
    return std::nullopt;
  }
  FreeSpace space;
  auto block = blocks.begin();
  for (const Extent& segment : segments) {
    const uint64_t end = segment.address + segment.bytes;
    uint64_t reached = segment.address;
    for (; block != blocks.end() && block->address < end; ++block) {
      if (block->address < reached || block->bytes > end - block->address) {
        return std::nullopt;
      }
      add_hole(space, reached, block->address);
      reached = block->address + block->bytes;
      space.allocated += block->bytes;
    }
    add_hole(space, reached, end);
    space.reserved += segment.bytes;
  }
  return block == blocks.end() ? std::optional(space) : std::nullopt;
}

namespace {

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

}  // namespace

FragmentationMeasures measures_of(const FreeSpace& space) {
  double squares = 0;
  for (const Extent& hole : space.holes) {
    squares += static_cast<double>(hole.bytes) * static_cast<double>(hole.bytes);
  }
  const auto reserved = static_cast<double>(space.reserved);
  const auto free = static_cast<double>(space.free);
  return {share(free - static_cast<double>(space.largest), free), share(free, reserved),
          share(squares, reserved * reserved)};
}

double unusable_share(const FreeSpace& space, uint64_t request) {
  return share(static_cast<double>(unusable_for(space, request)), static_cast<double>(space.free));
}

uint64_t unusable_for(const FreeSpace& space, uint64_t request) {
  uint64_t bytes = 0;
  for (const Extent& hole : space.holes) {
    bytes += hole.bytes < request ? hole.bytes : 0;
  }
  return bytes;
}

}  // namespace traintrace
