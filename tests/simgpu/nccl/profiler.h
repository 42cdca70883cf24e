// Profiler plugins, as NCCL loads and calls them (version 5 of their interface).
//
// A plugin is told of the call of an operation, of the task that it becomes, and of the channels
// that a kernel works on; each event names the one that it comes from.
#pragma once
#include "nccl/comm.h"

namespace simgpu::nccl {

struct Call;

// Loads the plugin that NCCL_PROFILER_PLUGIN names, once, and tells it of the communicator.
void profiler_init(Communicator& comm);
void profiler_finalize(Communicator& comm);

// Null: there is no plugin, or it does not want to follow this one.
void* profiler_call_begins(const Call& call, bool transfer, bool captured);
void* profiler_task_begins(Communicator& comm, const Operation& operation);
void* profiler_channel_begins(Communicator& comm, const Operation& operation);
void profiler_channel_ends(void* event);
void profiler_event_ends(void* event);

}  // namespace simgpu::nccl
