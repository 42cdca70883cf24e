// Communicators that grew (ncclCommGrow).  Ranks that join know nothing of the parent, and most of
// the parent's ranks nothing of the unique id; one knows both.
#pragma once

#include <span>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// Gives what ranks that joined recorded, of the communicator and of its children, the ids that the
// parent's ranks recorded.  Before anything is joined by id.  Without the trace of a rank that
// knows both, those who joined stay apart.
void unite_grown_communicators(std::span<ProcessTrace> traces);

}  // namespace traintrace
