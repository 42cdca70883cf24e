// What the threads of a rank were doing when it was looked at.
#pragma once

#include <optional>
#include <string>

#include "analyzer/model/process/code_place.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

// The thread that runs the user's code: one that is inside NCCL or CUDA and none of their own, else
// the main one, unless that only waits for others to end: then the one that makes the calls, whose
// number is `caller` (0: not known).  Null: nobody looked.
const ThreadNow* working_thread(const ProcessTrace& trace, int caller);

// The innermost frame of the user's code, else the innermost native one with a name.
std::optional<CodePlace> place_now(const ThreadNow& thread, Rank rank);

// "waits for a lock", "is in ncclAllReduce", "runs, holds the GIL".
std::string doing_text(const ThreadNow& thread);

}  // namespace traintrace
