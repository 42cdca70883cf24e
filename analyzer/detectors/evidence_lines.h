#pragma once

#include <cstddef>

namespace traintrace {

// How many lines, places or ranks of one kind a finding lists.  A person reads eight; sixteen where
// each of them may be the one that is looked for.
inline constexpr size_t kEvidenceLines = 8;
inline constexpr size_t kManyEvidenceLines = 16;

}  // namespace traintrace
