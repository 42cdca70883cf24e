// Reads histories of an allocator from stdin, one event a line, and prints the measures of its free
// space where it is told to: what brute_force.py compares.
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "analyzer/memory/allocator_replay.h"

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

}  // namespace

int main() {
  AllocatorReplay replay;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t requested = 0;
    words >> what >> address >> bytes >> requested;
    bool good = true;
    if (what == "history") {
      replay = AllocatorReplay();
    } else if (what == "map") {
      good = replay.map(address, bytes);
    } else if (what == "unmap") {
      good = replay.unmap(address);
    } else if (what == "map-piece") {
      good = replay.map(address, bytes, 512);
    } else if (what == "unmap-piece") {
      good = replay.unmap(address, bytes);
    } else if (what == "allocate") {
      good = replay.allocate(address, {.bytes = bytes, .requested = requested});
    } else if (what == "free") {
      good = replay.release(address);
    } else {
      print_measures(replay, address);
    }
    if (!good) {
      printf("refused\n");
    }
  }
}
