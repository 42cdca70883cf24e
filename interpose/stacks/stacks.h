// Stacks, stored once and referred to by id.  current_stack is in state.h.
//
// Cost on a known stack, without the walks themselves: 45 ns for 30 frames, 100 ns with the walk
// for 20 native ones.  A new stack: 160 ns, more where Python code is described for the first time.
#pragma once

#include "interpose/life/settings.h"
#include "interpose/record/thread.h"

namespace traintrace {

class CopiedMemory;
struct PythonThread;

// TRAINTRACE_STACKS; set before recording starts.
extern Stacks g_stack_mode;

// Cold: brings the table of modules up to date and writes the new ones into the trace.
void define_modules(ThreadState& thread) noexcept;

// The Python frames of another thread, for the tracer's own; 0: none that could be read.
uint32_t sampled_stack(ThreadState& own, const PythonThread& thread, CopiedMemory& memory) noexcept;

void modules_start() noexcept;
void modules_drop() noexcept;
void stacks_start() noexcept;
void stacks_drop() noexcept;

}  // namespace traintrace
