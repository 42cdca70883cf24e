// What the bands of memory over time are called: by whom, and where, which an engineer can change.
#pragma once

#include <string>
#include <vector>

#include "analyzer/memory/holders/callers.h"
#include "analyzer/memory/memory_life.h"
#include "analyzer/model/ids.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

class MemoryBands {
 public:
  // `stacks`: of all that is drawn.
  MemoryBands(const ProcessTrace& trace, Rank rank, const std::vector<uint32_t>& stacks);
  // "train.py:13 in alloc, called from train.py:22 in optimizer_state"
  std::string of(const LiveBlock& block) const;

 private:
  const ProcessTrace& trace_;
  Rank rank_;
  HelperCallers callers_;
};

// Of what that device held at some time, and when memory ran out on it.
std::vector<uint32_t> stacks_on(const MemoryLife& life, const OutOfMemoryText* failure, int device);

}  // namespace traintrace
