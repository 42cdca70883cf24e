#include "analyzer/model/look_up_code.h"

#include "analyzer/memory/process_memory.h"
#include "analyzer/model/code_place.h"

namespace traintrace {
namespace {

std::set<uint32_t> stacks_to_name(const ProcessTrace& trace) {
  std::set<uint32_t> stacks;
  for (const ThreadText& thread : trace.threads) {
    stacks.insert({thread.last_stack, thread.open[0].stack, thread.open[1].stack});
  }
  for (const CommunicatorText& communicator : trace.communicators) {
    stacks.insert({communicator.created_stack, communicator.ended_stack});
    for (const OperationText& operation : communicator.recent) {
      stacks.insert(operation.stack);
    }
  }
  const std::vector<uint32_t> memory = stacks_of_memory(trace);
  stacks.insert(memory.begin(), memory.end());
  return stacks;
}

}  // namespace

void look_up_code(ProcessTrace& trace, const std::set<uint32_t>& stacks, Symbolizer& symbolizer) {
  for (const uint32_t id : stacks) {
    const auto stack = trace.stacks.find(id);
    const uint64_t address =
        stack == trace.stacks.end() ? 0 : native_user_frame(trace, stack->second);
    if (address == 0 || trace.code.contains(address)) {
      continue;
    }
    for (const NativeFrame& frame : symbolizer.frames(trace, address)) {
      if (!frame.function.empty()) {
        trace.code[address] = {frame.function, frame.file.empty() ? frame.module : frame.file,
                               frame.line};
        break;
      }
    }
  }
}

void look_up_code(Run& run, Symbolizer& symbolizer) {
  for (ProcessTrace& trace : run.processes) {
    look_up_code(trace, stacks_to_name(trace), symbolizer);
  }
}

}  // namespace traintrace
