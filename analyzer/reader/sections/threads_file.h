// NAME.threads beside NAME.trace: what the threads of a process were doing when somebody looked at
// it (TRAINTRACE_ON_ABORT), in the text form of docs/dump.md.
#pragma once

#include <string>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

std::string threads_file_of(const std::string& trace);

// Takes it into the trace, unless the process has called something since: then it tells nothing
// about what the trace ends with.
void read_threads_file(ProcessTrace& trace);

}  // namespace traintrace
