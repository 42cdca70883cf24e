// What would be gained if what a finding is about were gone.
#pragma once

#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/timeline/profile.h"
#include "analyzer/timeline/replay/replay.h"

namespace traintrace {

// A job with more calls and kernels than this is not run again: it takes a second for some
// millions.
inline constexpr size_t kMostReplayed = 4'000'000;
bool can_replay(const Profile& profile);

// `gain_ns` and a line of evidence for each finding about lost time that says what was lost: how
// much shorter the recorded loop of the GPU that gains most would be, at best.
void add_gains(const Profile& profile, std::vector<Finding>& findings);

// One row for each GPU and reason for losing time: what it would gain if that were left out on all.
struct CauseGain {
  size_t device = 0;  // in Profile::devices
  // As idle_by_cause_ns calls it; "communication", "copies", "late-ranks", "none".
  const char* cause;
  int64_t lost_ns = 0;
  ReplayedTime without;
};
// "none", the replay with nothing left out, comes first for each GPU.
std::vector<CauseGain> gains_by_cause(const Profile& profile);

}  // namespace traintrace
