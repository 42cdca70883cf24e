// Which traces are of one process.
#pragma once

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// By whatever paths they are reached; false where they do not say of which start of a machine.
bool is_of_same_process(const ProcessTrace& a, const ProcessTrace& b);

}  // namespace traintrace
