// Collectives that carry so little that their time is what one costs at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/timeline/profile.h"

namespace traintrace {

struct SmallCollectives {
  std::string operation;
  std::string group;  // the communicator; may be empty
  size_t count = 0;   // 0: none that are worth merging
  int64_t median_bytes = 0;
  int64_t median_ns = 0;
  int64_t exposed_ns = 0;  // while nothing was computed
  // All but the first in each step, in Timeline::work: what is left if they are put into one.
  std::vector<size_t> others = {};
  // While nothing was computed, with what they waited for others: fewer of them wait less often.
  int64_t whole_ns = 0;
};

// Of one operation on one communicator, those that cost most: at least 12 in each step.
SmallCollectives small_collectives(const Profile& profile, const DeviceProfile& device);

}  // namespace traintrace
