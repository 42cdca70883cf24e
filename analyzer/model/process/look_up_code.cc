#include "analyzer/model/process/look_up_code.h"

#include <algorithm>

#include "analyzer/isolation/stage.h"
#include "analyzer/memory/allocator/workspaces.h"
#include "analyzer/memory/process_memory.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/library_header.h"

namespace traintrace {
namespace {

constexpr size_t kMostOfEvents = 1024;  // places from which anything was called

std::set<uint32_t> stacks_to_name(const ProcessTrace& trace) {
  std::set<uint32_t> stacks;
  for (const ThreadText& thread : trace.threads) {
    stacks.insert(
        {thread.last_stack, thread.group_stack, thread.open[0].stack, thread.open[1].stack});
  }
  for (const HostFunctionText& function : trace.host_functions) {
    stacks.insert(function.stack);
  }
  for (const CommunicatorText& communicator : trace.communicators) {
    stacks.insert({communicator.created_stack, communicator.ended_stack});
    for (const OperationText& operation : communicator.recent) {
      stacks.insert(operation.stack);
    }
  }
  const std::vector<uint32_t> memory = stacks_of_memory(trace);
  stacks.insert(memory.begin(), memory.end());
  const size_t most = stacks.size() + kMostOfEvents;
  for (auto event = trace.events.begin(); event != trace.events.end() && stacks.size() < most;
       ++event) {
    stacks.insert(event->stack);
  }
  return stacks;
}

// The innermost that is not of a library's header, else the innermost that is known.
const NativeFrame* user_frame(const std::vector<NativeFrame>& frames) {
  const NativeFrame* found = nullptr;
  for (const NativeFrame& frame : frames) {
    if (frame.function.empty()) {
      continue;
    }
    if (!is_library_header(frame.file)) {
      return &frame;
    }
    found = found == nullptr ? &frame : found;
  }
  return found;
}

// What PyTorch allocated memory for is told by its own functions.
void look_up_workspaces(ProcessTrace& trace, Symbolizer& symbolizer) {
  for (const uint32_t stack : stacks_that_hold_most(trace)) {
    for (const uint64_t address : frames_in_pytorch(trace, stack)) {
      const NativeFrame* const frame =
          trace.code.contains(address) ? nullptr : user_frame(symbolizer.frames(trace, address));
      if (frame != nullptr) {
        trace.code[address] = {frame->function, frame->file.empty() ? frame->module : frame->file,
                               frame->line};
      }
    }
  }
}

}  // namespace

// Functions of a runtime that is linked into the program, which is seen to call the driver.
static void look_up_linked_runtime(ProcessTrace& trace, const StackText& stack,
                                   Symbolizer& symbolizer) {
  constexpr size_t kMostFrames = 12;  // of the runtime, within one another
  for (size_t i = 0; i < std::min(stack.native.size(), kMostFrames); ++i) {
    if (trace.code.contains(stack.native[i])) {
      continue;
    }
    const std::vector<NativeFrame>& frames = symbolizer.frames(trace, stack.native[i]);
    const auto function = std::find_if(frames.begin(), frames.end(), [](const NativeFrame& frame) {
      return is_runtime_function(frame.function);
    });
    if (function != frames.end()) {
      trace.code[stack.native[i]] = {function->function, function->module, 0};
    }
  }
}

void look_up_code(ProcessTrace& trace, const std::set<uint32_t>& stacks, Symbolizer& symbolizer) {
  const bool may_be_linked = has_linked_runtime(trace);
  for (const uint32_t id : stacks) {
    const auto stack = trace.stacks.find(id);
    if (may_be_linked && stack != trace.stacks.end() &&
        native_user_frame(trace, stack->second) != 0) {
      look_up_linked_runtime(trace, stack->second, symbolizer);
    }
    // Who called a function of a library's header comes next.
    uint64_t address = 0;
    while (stack != trace.stacks.end() &&
           (address = native_user_frame(trace, stack->second)) != 0 &&
           !trace.code.contains(address)) {
      const NativeFrame* const frame = user_frame(symbolizer.frames(trace, address));
      if (frame == nullptr) {
        break;
      }
      trace.code[address] = {frame->function, frame->file.empty() ? frame->module : frame->file,
                             frame->line};
    }
  }
}

void look_up_code(Run& run, Symbolizer& symbolizer) {
  for (const ProcessTrace& trace : run.processes) {
    symbolizer.learn(trace);
  }
  for (ProcessTrace& trace : run.processes) {
    run_stage("symbols of " + trace.source, [&] {
      look_up_code(trace, stacks_to_name(trace), symbolizer);
      look_up_workspaces(trace, symbolizer);
    });
  }
}

}  // namespace traintrace
