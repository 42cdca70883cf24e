// Functions that the job puts on streams (cudaLaunchHostFunc, cudaStreamAddCallback, and the
// driver's): CUDA is handed one of ours in their place, which calls them.  So it is seen that a
// stream came this far, and which function never returned.
//
// CUDA is only handed ours where the function will be called once: not while the stream is being
// captured, since each launch of the graph would call it again.
#pragma once

#include "interpose/tables/state.h"

namespace traintrace {

// cuStreamIsCapturing; before it is known nothing is wrapped.  Changes nothing and may be called
// anywhere outside host functions.
using IsCapturing = int (*)(uint64_t stream, int* status);
void host_functions_may_ask(IsCapturing ask) noexcept;
bool host_functions_can_ask() noexcept;

struct HostFunctionArguments {
  format::CallId call;
  uint64_t stream;
  void* function;
  void* data;
  uint32_t stack;
  uint64_t ticks;
};
// Before the real call: its number, 0 if it is to be passed on as it is.
uint32_t host_function_wrapped(ThreadState& thread,
                               const HostFunctionArguments& arguments) noexcept;
// After the real call.
void host_function_enqueued(uint32_t number, int result) noexcept;

// What goes to CUDA instead.
using HostFunction = void (*)(void* data);
using HostFunctionWithStatus = void (*)(void* stream, int status, void* data);
void call_host_function(void* data);
void call_host_function_with_status(void* stream, int status, void* data);
void* host_function_data(uint32_t number) noexcept;

void host_functions_start() noexcept;

}  // namespace traintrace
