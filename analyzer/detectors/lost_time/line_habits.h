// What a line of the job loses each time it comes by, told from what it loses now and then, where
// only the host's calls were recorded and steps are not known.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "analyzer/timeline/profile.h"

namespace traintrace {

// A gap is a pause if more than half of those before and after it, after the same call on the same
// line, are some times shorter.  All parts of a gap are, whatever their causes.
class LineHabits {
 public:
  explicit LineHabits(const DeviceProfile& device);
  bool is_pause(const IdleGap& gap) const { return pauses_.contains(gap.until_ns); }

 private:
  std::unordered_set<int64_t> pauses_;  // by their ends
};

}  // namespace traintrace
