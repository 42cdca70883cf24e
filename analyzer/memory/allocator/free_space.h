// How usable the free memory within an allocator's segments is (docs/findings.md has the measures).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace traintrace {

struct Extent {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

struct FreeSpace {
  uint64_t reserved = 0;      // of all segments
  uint64_t allocated = 0;     // of all blocks
  std::vector<Extent> holes;  // by address; segments that touch are not one
  uint64_t free = 0;          // of all holes
  uint64_t largest = 0;       // hole
};

// None: blocks or segments overlap, or a block is in no segment: the picture is not whole.
std::optional<FreeSpace> free_space(std::vector<Extent> segments, std::vector<Extent> blocks);

// Shares of 1; 0 where there is nothing to share.
struct FragmentationMeasures {
  double external = 0;  // of the free bytes, those outside of the largest hole
  double idle = 0;      // of the reserved bytes, those that are free
  double concentration =
      0;  // sum of the squares of all holes, of the square of all that is reserved
};
FragmentationMeasures measures_of(const FreeSpace& space);

// Of the free bytes, those in holes that are too small for `request`.
uint64_t unusable_for(const FreeSpace& space, uint64_t request);
double unusable_share(const FreeSpace& space, uint64_t request);

}  // namespace traintrace
