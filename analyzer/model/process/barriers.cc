#include "analyzer/model/process/barriers.h"

#include <algorithm>
#include <set>

namespace traintrace {
namespace {

bool is_barrier(const PythonFrameText& frame) {
  return frame.function == "barrier" &&
         frame.file.ends_with("torch/distributed/distributed_c10d.py");
}

}  // namespace

void note_barriers(ProcessTrace& trace) {
  std::set<uint32_t> stacks;
  for (const auto& [id, stack] : trace.stacks) {
    if (std::any_of(stack.python.begin(), stack.python.end(), is_barrier)) {
      stacks.insert(id);
    }
  }
  for (CommunicatorText& communicator : trace.communicators) {
    for (OperationText& operation : communicator.recent) {
      if (operation.collective && stacks.contains(operation.stack)) {
        operation.as = CalledAs::kBarrier;
      }
    }
  }
}

}  // namespace traintrace
