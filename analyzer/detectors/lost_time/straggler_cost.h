// What stragglers cost a job.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/timeline/profile.h"

namespace traintrace {

// By how much the window of some GPU is longer for what each of `suspects` (in Profile::timelines)
// does beyond the usual, in ns, in their order: by replays of the recording without it, as it was
// and with none of the other suspects doing so either; the longer counts.  0: what it does is
// hidden behind its GPU's work, or behind its waiting for others.  None: the job cannot be replayed
// (can_replay, knows_who_waits).
std::optional<std::vector<int64_t>> delays_by(const Profile& profile,
                                              const std::vector<size_t>& suspects);

}  // namespace traintrace
