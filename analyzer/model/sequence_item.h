// A collective as a member of a communicator issued it.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct SequenceItem {
  // Function, count, type, reduction, root: what must be equal on all members.  Where data is only
  // copied, its bytes instead of count and type.
  uint64_t key = 0;
  uint64_t site = 0;  // where it was called; 0: not known
  OperationText operation;
  std::string function;  // ncclBroadcast for ncclBcast
};

// A barrier is not the all-reduce that NCCL sees.
inline bool is_same_function(const SequenceItem& a, const SequenceItem& b) {
  return a.function == b.function && a.operation.as == b.operation.as;
}

// "ncclAllReduce", "barrier (ncclAllReduce)"
inline std::string name_of_call(const std::string& function, const OperationText& operation) {
  return operation.as == CalledAs::kBarrier ? "barrier (" + function + ")" : function;
}

}  // namespace traintrace
