// Which processes belong to a job.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/live/proc_files.h"
#include "analyzer/live/served_time.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

// The trace that the process writes right now, as a path that we can open.
std::optional<std::string> trace_of_process(const ProcProcess& process);

// What to read for the job that it is of: the folder of its traces, as a path that we can open; its
// trace alone where nothing beside it is known to be of the job.
std::optional<std::string> input_of_process(const ProcProcess& process);

// Whether it has loaded the driver of the GPU, or writes a trace.
bool uses_gpu(const ProcProcess& process);

// Forgets all but what tells that, and where its trace is: it is read anew when it is looked at.
void keep_little(ProcProcess& process);

// All such processes, but for this one and those that cannot be read within
// `limit` of `time`.
std::vector<ProcProcess> gpu_processes(ServedTime& time, ServedTime::Clock::duration limit);

// The children of those processes that are none of them.
std::map<pid_t, std::vector<pid_t>> children_of(const std::vector<pid_t>& pids);

// What can be said of a process that nobody recorded: who it is, and its environment.
ProcessTrace unrecorded_trace(const ProcProcess& process, TimeNs now);

}  // namespace traintrace
