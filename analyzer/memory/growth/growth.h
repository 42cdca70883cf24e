// Memory that becomes more for as long as the job works, whatever is live at the end.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/memory/growth/call_paths.h"
#include "analyzer/memory/growth/regular_growth.h"
#include "analyzer/memory/growth/stack_series.h"
#include "analyzer/memory/history.h"

namespace traintrace {

struct Growth {
  TimeNs since = 0;             // birth of the oldest copy that was left
  TimeNs newest = 0;            // and of the newest of all
  uint64_t bytes_per_step = 0;  // since then; 0: cannot be said
  // In the first and the last of these steps, where each left more than the one before; else 0.
  uint64_t first_bytes = 0, last_bytes = 0;
  int64_t every = 1;             // so many steps the same is left, as an evaluation does
  uint64_t bytes_per_round = 0;  // each time, where that is more than one
  uint64_t step_count = 0;       // since then, about
  int64_t since_step = 0;        // in which that was, from 1; 0: not all steps are recorded
  uint64_t bytes = 0;            // that had gathered when it was most
  uint64_t blocks = 0;
  uint32_t after = 0;   // what has no line of its own: the job's stack that came before most of it
  uint64_t pieces = 0;  // in which it came: blocks, or what was added to one that was replaced
};

// Copies that were left, and the step in which they were born.
struct Births {
  int64_t step = 0;
  uint64_t copies = 1;
};

enum class BeginsWhen : uint8_t {
  kEarly,  // what is collected now and then leaves young copies only
  kAny,    // nothing was ever freed: there are no others; or far fewer were live before
};

// Whether copies were left all along from step `start` to `end`: neither all at the beginning
// (weights, a cache that is full), nor only lately, nor fewer and fewer of them (a cache that
// fills), nor up to some step and then no more (a plateau).  `births`: by step.
bool grows_throughout(std::span<const Births> births, int64_t start, int64_t end,
                      BeginsWhen begins);

// Whether there were ever enough blocks of that stack at a time to be judged, or it was enlarged as
// often.
bool has_gathered(const StackMemoryText& memory);

struct GrowingGroup {
  BlockGroup group;  // what is live of it
  Growth growth;
};

// What of a process's memory grew.  Where no record is missing, by what was live over the whole
// run: as an exception unwinds, and at its exit, Python frees everything.  Else by what is live, or
// was before that.
class GrowthJudge {
 public:
  GrowthJudge(const ProcessTrace& trace, const MemoryHistory& history);

  // `group`: what is live of that stack; no blocks, where it was freed since.
  std::optional<Growth> growth_of(const BlockGroup& group) const;
  // All memory of the job that grows.
  std::vector<GrowingGroup> growing() const;

  // By path of calls; empty: records are missing.
  const StackSeries& series() const { return series_; }
  // As the growing groups name it.
  uint32_t path_of(uint32_t stack) const { return paths_.of(stack); }

 private:
  struct Freed {
    TimeNs born = 0, freed = 0;
  };
  // What was left of one path of calls, and how it was judged.
  struct Pattern {
    std::vector<LeftOver> all;
    std::vector<Births> births;  // in the steps
    TimeNs since = 0;
    uint64_t pieces = 0;
    std::vector<Round> rounds;  // not empty: it grows by these
  };
  void follow();
  enum class Weigh : uint8_t { kBlocks, kBytes };
  Pattern pattern_of(std::vector<LeftOver> all, std::vector<Round> rounds, Weigh weigh) const;
  bool grows(const Pattern& pattern, BeginsWhen begins) const;
  bool began_to_grow(const StackMemoryText& memory, const Pattern& pattern) const;
  std::optional<Pattern> growing_blocks(uint32_t path, const StackMemoryText& memory) const;
  std::optional<Pattern> growing_block(uint32_t path, const StackMemoryText& memory) const;
  bool works_through(const StackMemoryText& memory) const;
  int64_t last_known_step() const;
  bool are_let_go(uint32_t path, uint64_t left) const;
  bool is_newest_let_go(uint32_t path) const;
  void add_groups(const std::vector<BlockGroup>& from, std::vector<BlockGroup>& groups) const;
  std::vector<BlockGroup> groups() const;  // by path

  const ProcessTrace& trace_;
  const MemoryHistory& history_;
  mutable CallPaths paths_;
  StackSeries series_;
  int64_t start_ = 0, end_ = 0;  // the steps of which is known what they left
  bool is_preparation_ = false;  // what was repeated was no step
  bool only_infers_ = false;     // no backward pass, no optimizer, no collective
  std::map<uint32_t, std::vector<Freed>> freed_late_;  // by path: what the last step left
  std::map<uint32_t, Freed> newest_freed_;  // by path: the youngest block, freed in the last step
  // When memory was last asked for, but for the smallest blocks, had or not.  What was freed before
  // that was freed on purpose; what was freed later may be the end of the process.
  TimeNs last_request_ = 0;
};

}  // namespace traintrace
