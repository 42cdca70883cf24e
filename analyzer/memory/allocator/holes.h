// The free space within an allocator's segments, kept up to date change by change: to look at all
// blocks whenever memory is taken from the device would take ever longer.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "analyzer/memory/allocator/address_map.h"
#include "analyzer/memory/allocator/allocator_replay.h"

namespace traintrace {

// A freed block that waits for events of other streams: it divides the hole that it lies in.
struct PendingBlock {
  uint64_t bytes = 0;
  size_t events = 0;  // of `marks`, that have not passed
  int64_t freed = 0;
  uint32_t stream = 0;
  uint32_t stack = 0;  // that allocated it: of a free there is none
  std::vector<uint64_t> marks;
};
using PendingBlocks = std::map<uint64_t, PendingBlock>;  // by address

struct UsableSpace {
  uint64_t free = 0;     // to be had
  uint64_t largest = 0;  // piece of that
  uint64_t whole = 0;    // of `free`, in segments with nothing else
  uint64_t pending = 0;
  uint64_t largest_if_done = 0;  // if nothing were pending
};

// Segments of PyTorch's are of one of two kinds, by their size, and serve only requests of one.
bool is_for_small(const HeldSegment& segment);

class Holes {
 public:
  // Something has changed between `begin` and `end`.
  void update(const AllocatorReplay& replay, const PendingBlocks& pending, uint64_t begin,
              uint64_t end);
  // Without segments that begin in one of `without`.
  UsableSpace space(const AllocatorReplay& replay, bool small,
                    const std::vector<Extent>& without) const;

 private:
  struct Hole {
    uint64_t bytes : 61;
    uint64_t small : 1;
    uint64_t whole : 1;    // all of its segment
    uint64_t divided : 1;  // by what is pending: `divided_` has the rest
  };
  static_assert(sizeof(Hole) == 8);  // there are as many of them as of blocks
  struct Divided {
    uint64_t free = 0, largest = 0, pending = 0;
  };
  using Sizes = std::map<uint64_t, uint64_t>;  // how many of each
  struct Sums {
    uint64_t free = 0, whole = 0, pending = 0;
    Sizes sizes;                           // of holes that are not divided
    Sizes divided_sizes, divided_largest;  // of the others, and of their largest pieces
  };

  void add(uint64_t address, uint64_t bytes, const HeldSegment& segment, bool is_all,
           const PendingBlocks& pending);
  void remove(uint64_t address, Hole hole);
  void add_between(const AllocatorReplay& replay, const PendingBlocks& pending,
                   std::map<uint64_t, HeldSegment>::const_iterator segment, uint64_t begin,
                   uint64_t end);
  static Divided divided(uint64_t begin, uint64_t end, const PendingBlocks& pending);

  AddressMap<Hole> holes_;
  std::map<uint64_t, Divided> divided_;  // by address of their holes
  std::array<Sums, 2> sums_;             // of large segments, of small ones
};

}  // namespace traintrace
