// Which collectives are a framework's barriers.
#pragma once

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// NCCL has none: PyTorch makes them of all-reduces, and only the frames that called tell.  A dump
// of Flight Recorder may have said so already.
void note_barriers(ProcessTrace& trace);

}  // namespace traintrace
