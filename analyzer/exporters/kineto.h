// A timeline as PyTorch's profiler writes it (Kineto: JSON in Chrome's format), for viewers and
// analyses that read that.
#pragma once

#include <string>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// One file for each rank.  Read back, it gives the same figures.
std::string kineto_trace(const Timeline& timeline);

}  // namespace traintrace
