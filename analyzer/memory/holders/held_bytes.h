// How much memory each stack holds: last, and when the process held most.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analyzer/memory/history.h"
#include "analyzer/memory/memory_life.h"

namespace traintrace {

struct HeldBytes {
  LiveBlock like;                // one of its blocks
  uint64_t live = 0;             // at the end of what is recorded
  std::optional<uint64_t> peak;  // when its device, or the host, had most in use; none: not known
  std::optional<uint64_t> growth_per_step;  // none: there are no steps
};

// By stack.  Memory in use: PyTorch's segments count by the blocks in them.
std::map<uint32_t, HeldBytes> held_bytes(const ProcessTrace& trace);

}  // namespace traintrace
