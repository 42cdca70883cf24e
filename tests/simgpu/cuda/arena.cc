#include "cuda/arena.h"

#include <algorithm>
#include <iterator>

namespace simgpu {

std::optional<size_t> Arena::take(size_t bytes, size_t alignment) {
  const size_t wanted = rounded(bytes);
  alignment = std::max(alignment, kAlignment);
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const auto [offset, available] = *hole;
    const size_t start = (offset + alignment - 1) / alignment * alignment;
    const size_t skipped = start - offset;
    if (available < wanted || available - wanted < skipped) {
      continue;
    }
    const size_t left = available - wanted - skipped;
    if (skipped) {
      hole->second = skipped;
    } else {
      holes_.erase(hole);
    }
    if (left) {
      holes_.emplace(start + wanted, left);
    }
    free_bytes_ -= wanted;
    return start;
  }
  return std::nullopt;
}

Arena::Hole Arena::give(size_t offset, size_t bytes) {
  const size_t freed = rounded(bytes);
  free_bytes_ += freed;
  auto after = holes_.lower_bound(offset);
  size_t end = offset + freed;
  if (after != holes_.end() && after->first == end) {
    end += after->second;
    after = holes_.erase(after);
  }
  if (after != holes_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second = end - before->first;
      return {before->first, before->second};
    }
  }
  holes_.emplace_hint(after, offset, end - offset);
  return {offset, end - offset};
}

}  // namespace simgpu
