// PyTorch's caching allocator was refused memory and has not given up yet.
#pragma once

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// It gives back what it has cached, which waits for the GPU, and asks once more.  Only when that
// fails, too, it reports it and raises an error.  A process that ended by itself did not wait for
// that.
bool allocator_is_retrying(const ProcessTrace& trace);

}  // namespace traintrace
