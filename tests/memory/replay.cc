// Reads histories of an allocator from stdin, one event a line, and prints the measures of its free
// space where it is told to: what brute_force.py compares.
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "analyzer/memory/allocator_replay.h"

int main() {
  using namespace traintrace;
  AllocatorReplay replay;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    uint64_t address = 0;
    uint64_t bytes = 0;
    words >> what >> address >> bytes;
    bool good = true;
    if (what == "history") {
      replay = AllocatorReplay();
    } else if (what == "map") {
      good = replay.map(address, bytes);
    } else if (what == "unmap") {
      good = replay.unmap(address);
    } else if (what == "allocate") {
      good = replay.allocate(address, bytes);
    } else if (what == "free") {
      good = replay.release(address);
    } else {
      const FreeSpace space = replay.now();
      printf("%lu %lu %lu %lu %zu %lu %lu %lu\n", space.reserved, space.allocated, space.free,
             space.largest, space.holes.size(), unusable_for(space, address),
             replay.peak_reserved(), replay.peak_allocated());
    }
    if (!good) {
      printf("refused\n");
    }
  }
}
