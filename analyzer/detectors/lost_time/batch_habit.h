// The loader of an evaluation that comes again: no habit of the steps, and one all the same.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/timeline/profile.h"

namespace traintrace {

// How long batches of an evaluation are waited for that comes again, a loop of its own, where they
// cost as much as without a GPU timeline is worth a warning; -1: they do not.
int64_t longest_batch(const DeviceProfile& device, std::vector<IdleGap> gaps);

}  // namespace traintrace
