// Reads histories of an allocator from stdin, one event a line, and prints the measures of its free
// space where it is told to: what brute_force.py compares.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

#include "analyzer/memory/allocator/holes.h"

namespace {

using namespace traintrace;

void print_measures(const AllocatorReplay& replay, uint64_t request) {
  const FreeSpace space = replay.now();
  const FragmentationMeasures measures = measures_of(space);
  const Overhead overhead = replay.overhead();
  printf("%lu %lu %lu %lu %zu %lu %lu %lu %lu %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f\n",
         space.reserved, space.allocated, space.free, space.largest, space.holes.size(),
         unusable_for(space, request), replay.peak_reserved(), replay.peak_allocated(),
         replay.unrequested(), measures.external, measures.idle, measures.concentration,
         unusable_share(space, request), overhead.average, overhead.at_peak_use,
         overhead.at_peak_held, overhead.of_peaks);
}

// With the free space that is kept up to date beside it.
struct Allocator {
  AllocatorReplay replay;
  PendingBlocks pending;
  Holes holes;

  void update(uint64_t address, uint64_t bytes) {
    holes.update(replay, pending, address, address + bytes);
  }
  // What waits there has been taken, or given back.
  void forget(uint64_t address, uint64_t bytes) {
    for (auto block = pending.begin(); block != pending.end();) {
      const auto [begin, waits] = *block;
      const bool gone = begin < address + bytes && address < begin + waits.bytes;
      block = gone ? pending.erase(block) : std::next(block);
      if (gone) {
        update(begin, waits.bytes);
      }
    }
  }
  void print_space(uint64_t address, uint64_t bytes) const {
    for (const bool small : {false, true}) {
      const UsableSpace space = holes.space(replay, small, {{address, bytes}});
      printf("%lu %lu %lu %lu %lu\n", space.free, space.largest, space.whole, space.pending,
             space.largest_if_done);
    }
  }
};

constexpr uint64_t kPiece = uint64_t{512} << 10;

bool change(Allocator& allocator, const std::string& what, uint64_t address, uint64_t bytes,
            uint64_t requested) {
  AllocatorReplay& replay = allocator.replay;
  const uint64_t reserved = replay.reserved();
  const uint64_t allocated = replay.allocated();
  const bool good = what == "map"           ? replay.map(address, bytes)
                    : what == "unmap"       ? replay.unmap(address)
                    : what == "map-piece"   ? replay.map(address, bytes, kPiece)
                    : what == "unmap-piece" ? replay.unmap(address, bytes)
                    : what == "allocate"
                        ? replay.allocate(address, {.bytes = bytes, .requested = requested})
                        : replay.release(address);
  const uint64_t changed =
      std::max(reserved, replay.reserved()) - std::min(reserved, replay.reserved()) +
      std::max(allocated, replay.allocated()) - std::min(allocated, replay.allocated());
  if (good && what != "free" && what != "map" && what != "map-piece") {
    allocator.forget(address, changed);
  }
  allocator.update(address, changed);
  return good;
}

}  // namespace

int main() {
  Allocator allocator;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t requested = 0;
    words >> what >> address >> bytes >> requested;
    if (what == "history") {
      allocator = Allocator();
    } else if (what == "measure") {
      print_measures(allocator.replay, address);
    } else if (what == "space") {
      allocator.print_space(address, bytes);
    } else if (what == "wait") {
      allocator.pending[address].bytes = bytes;
      allocator.update(address, bytes);
    } else if (what == "done") {
      const uint64_t waited = allocator.pending[address].bytes;
      allocator.pending.erase(address);
      allocator.update(address, waited);
    } else if (!change(allocator, what, address, bytes, requested)) {
      printf("refused\n");
    }
  }
}
