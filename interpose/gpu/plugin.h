// GPU progress, level `plugin`: what NCCL's profiler interface tells about each operation.
//
// NCCL reports the call of an operation (inside our wrapper, on its thread: so the operation is
// known), then its tasks with their channels, whose parent is the call, then by a thread of its own
// when the kernel begins and ends its part on a channel, whose parent is the task.  All handles
// that we give out are numbers: the operation's place, its lap there and what sort of event it is.
#pragma once

#include "interpose/gpu/marks.h"

namespace traintrace {

// Around a call of NCCL; the first one settles whether NCCL has loaded us.
void plugin_operation_entered(ThreadState& thread, format::Operation& operation) noexcept;
void plugin_operation_left(ThreadState& thread) noexcept;

// As marks_freeze.
void plugin_freeze(format::Operation& operation) noexcept;
// The communicator's element goes to another one.
void plugin_forget(uint32_t index) noexcept;

void plugin_start() noexcept;
void plugin_drop() noexcept;

// Filled by plugin_entry.cc, which has the structure that NCCL looks for.
void plugin_loaded() noexcept;

// Events, as NCCL reports them.  A handle of 0: not followed.
uint64_t plugin_call_begins() noexcept;
uint64_t plugin_task_begins(uint64_t call, uint32_t channels) noexcept;
uint64_t plugin_channel_begins(uint64_t task) noexcept;
void plugin_event_ends(uint64_t handle) noexcept;

}  // namespace traintrace
