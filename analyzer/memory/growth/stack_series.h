// How much of each stack's memory was live, over the whole run.
#pragma once

#include <map>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// The least that was live before one of some allocations in a row.
struct MemorySampleText {
  TimeNs time = 0;  // of the first of these
  uint64_t bytes = 0, blocks = 0;
  uint64_t most_blocks = 0;  // that were live after one of them
};

// The memory that one stack allocated, over the whole run.  What is live when a trace ends says
// little: Python frees everything as an exception unwinds, and at its exit.  So the live memory
// before each allocation is kept, in samples of `stride` allocations.  Frees touch no sample.
struct StackMemoryText {
  uint32_t stack = 0, call = 0;  // blocks of PyTorch's: its report
  uint8_t device = format::kNoDevice;
  uint64_t allocations = 0, bytes = 0, blocks = 0;
  TimeNs last = 0;  // the newest allocation, and what was live after it
  uint64_t last_bytes = 0, last_blocks = 0;
  uint64_t largest = 0;     // of its blocks
  uint64_t newest = 0;      // bytes of the newest block
  uint64_t enlargings = 0;  // allocations that were larger than all before
  uint32_t stride = 0;
  std::vector<MemorySampleText> samples;  // by time
};

using StackSeries = std::map<uint32_t, StackMemoryText>;  // by stack

// In order of time.
class SeriesBuilder {
 public:
  struct Allocation {
    uint32_t stack = 0, call = 0;
    uint8_t device = format::kNoDevice;
    uint64_t bytes = 0;
    TimeNs time = 0;
  };
  void add(const Allocation& allocation);
  void remove(uint32_t stack, uint64_t bytes);
  // What was freed since the newest allocation of its stack was not left.
  void count_frees();
  StackSeries finish() { return std::move(series_); }

 private:
  struct Open {
    uint64_t in_sample = 0;
  };
  StackSeries series_;
  std::map<uint32_t, Open> open_;
};

// What was left for good, one thing after the other: of what was live before the first allocation
// of a sample, nothing is freed until the newest allocation.
struct LeftOver {
  TimeNs time = 0;  // of the allocation, or a little later
  uint64_t bytes = 0, blocks = 0;
};
std::vector<LeftOver> left_over(const StackMemoryText& memory);

// What a stack did before some time.
struct Earlier {
  uint64_t allocations = 0;  // about
  uint64_t most_blocks = 0;  // that were ever live at a time
};
Earlier earlier_than(const StackMemoryText& memory, TimeNs time);

// What was added to the one block that there is of a stack, where that is made anew and larger
// again and again, as `history = torch.cat([history, new])` does.  The first is what it began with.
std::vector<LeftOver> added_to_one(const StackMemoryText& memory);

}  // namespace traintrace
