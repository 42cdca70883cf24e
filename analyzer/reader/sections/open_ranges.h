// Which ranges of NVTX each thread is in.
#pragma once

#include "analyzer/reader/sections/tables.h"

namespace traintrace {

// After the threads.
void read_open_ranges(ReadContext& context);

}  // namespace traintrace
