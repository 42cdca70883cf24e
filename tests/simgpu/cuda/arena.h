// First-fit layout of a device's linear memory: offsets only, no bytes.
//
// First fit at 512 bytes is what makes fragmentation real: a request fails when no hole is large
// enough, although the holes together would be.
#pragma once
#include <cstddef>
#include <map>
#include <optional>

namespace simgpu {

// Not thread-safe.
class Arena {
 public:
  static constexpr size_t kAlignment = 512;

  struct Hole {
    size_t offset;
    size_t bytes;
  };

  explicit Arena(size_t bytes) : holes_{{0, bytes}}, free_bytes_(bytes) {}

  // What a request of `bytes` occupies.
  static constexpr size_t rounded(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // The lowest place for rounded(bytes); `alignment` is a power of two.
  std::optional<size_t> take(size_t bytes, size_t alignment = kAlignment);
  // Gives a taken place back and returns the hole that it is part of now.
  Hole give(size_t offset, size_t bytes);

  size_t free_bytes() const { return free_bytes_; }
  size_t hole_count() const { return holes_.size(); }

 private:
  std::map<size_t, size_t> holes_;  // offset -> bytes; no two touch each other
  size_t free_bytes_;
};

}  // namespace simgpu
