// What a process held of a device at some moment, whether or not an allocation failed then.
#pragma once

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// As a failed allocation would have told of it, but for the request.  `time`: after what was
// recorded then.  Where records are missing it is what the tables have, which is of the end.
OutOfMemoryText held_at(const ProcessTrace& trace, uint8_t device, TimeNs time);

}  // namespace traintrace
