// How long kernels that communicate only wait for their peers, and move nothing yet.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/timeline/profile.h"

namespace traintrace {

// By Profile::timelines and Timeline::work: until when it is known that the kernel waited, in ns of
// the process; not after its start: it did not, or that is not known.
std::vector<std::vector<int64_t>> waited_until(const Profile& profile);

}  // namespace traintrace
