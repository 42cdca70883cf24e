// Who holds the memory, as lines of evidence: for every verdict that an allocation which failed is
// part of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/memory/history.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/run.h"

namespace traintrace {

struct WhoHeld {
  std::vector<std::string> lines;  // empty: it was not recorded
  // "train.py:4 in alloc, called from train.py:11 in step": the line of the job that holds most;
  // empty: none does.
  std::string most;
  uint64_t most_bytes = 0;
};
// Of the rank at that time, and the peaks of other ranks beside.
WhoHeld who_held(const Run& run, const RankState& state, const OutOfMemoryText& failure);

// Where the allocation that failed was asked for.  Autograd's threads run no Python: then the line
// from which the GPU got work last, which is that of backward() or next to it.
struct FailurePlace {
  CodePlace place;
  bool is_before = false;  // in a thread without lines of the job, some time later
};
std::optional<FailurePlace> place_of_failure(const ProcessTrace& trace, Rank rank,
                                             const OutOfMemoryText& failure);

}  // namespace traintrace
