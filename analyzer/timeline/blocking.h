// Communication that the next computation waits for.
#pragma once

#include <optional>
#include <span>

#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Of one device's `work` by start: while communication ran, nothing was computed, and the next
// kernel that computes had been launched and waited for a kernel of NCCL, or for copies and sets
// that waited for one.  Exposed communication is no less.  None where the timeline does not tell
// what work waits for.
std::optional<Spans> blocking_communication(const Timeline& timeline,
                                            std::span<const GpuWork> work);

}  // namespace traintrace
