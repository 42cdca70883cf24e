// How much a collective moves, where that is known.
#pragma once

#include "analyzer/reader/process_trace.h"
#include "format/trace_format.h"

namespace traintrace {

// Dumps do not say how much an all-to-all moves: its count is 0, and it is not empty.
inline bool is_size_known(const OperationText& operation) {
  return operation.count != 0 || (operation.flags & format::kEmpty) != 0;
}

}  // namespace traintrace
