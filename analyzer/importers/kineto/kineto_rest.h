// What a trace of PyTorch's profiler has beside its events: the job, its GPUs, its time 0.
#pragma once

#include <string>

#include "analyzer/timeline/timeline.h"

namespace traintrace::kineto {

// `rest`: one JSON object.  What went wrong; empty: nothing.
std::string read_rest(const std::string& rest, Timeline& timeline);

}  // namespace traintrace::kineto
