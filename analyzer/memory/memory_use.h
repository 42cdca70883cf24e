// How memory was used: where another device was current, and how much of it.
#pragma once

#include <map>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct ForeignUse {
  uint32_t call = 0, stack = 0;
  TimeNs time = 0;
  uint64_t address = 0, bytes = 0;
  int device = -1;         // that was current
  int owner = -1;          // whose memory it is
  uint32_t allocated = 0;  // stack
  bool is_free = false;
};

// By the job's own code, before the last launch or collective; what cleans up behind all work does
// no harm.
std::vector<ForeignUse> foreign_uses(const ProcessTrace& trace);

// By device: the first call that needed a context there.
std::map<int, const CallRecord*> first_uses_of_devices(const ProcessTrace& trace);

// A piece of pinned memory whose size was rounded up to a power of two, and as far as copies used
// it.
struct PinnedUse {
  uint32_t stack = 0;
  uint64_t bytes = 0, used = 0;
};
std::vector<PinnedUse> pinned_uses(const ProcessTrace& trace);

}  // namespace traintrace
