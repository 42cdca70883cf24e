// Ranks that are blocked outside CUDA, as somebody saw who looked at their threads.
#pragma once

#include "analyzer/model/run.h"

namespace traintrace {

// All that keep the others waiting there have been looked at (live/), are outside NCCL and CUDA,
// and have called nothing of them for as long as a hang takes.
bool is_stuck_on_host(const Run& run, const Hang& hang);

// Nothing that was seen there may let the thread go on: it waits without a time limit for a lock or
// the GIL, and no other thread of the process that might release it can go on either.  A sleep
// ends, a file system answers late, a child process or the other end of a socket may be at work.
bool cannot_go_on(const ProcessTrace& trace, const ThreadNow& thread);

}  // namespace traintrace
