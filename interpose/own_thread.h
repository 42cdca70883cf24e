// The tracer's one thread.  It says each second that the process lives, renews the clock anchors,
// and does what must stay off the hot path or could block.
#pragma once

#include "format/trace_format.h"

namespace traintrace {

struct OwnThreadWork {
  format::FileHeader* file;
  const char* pointer_dir;  // where a pointer to the trace is to be written, null: nowhere
  const char* trace_path;
  bool full;  // TRAINTRACE_MODE
};

// Call it with all signals blocked: the thread inherits that, for it must not take signals that
// are meant for the job.  `work` must live on.  False: the system allows no more threads.
bool start_own_thread(const OwnThreadWork& work) noexcept;

// From any thread; nothing where another one is at it.
void renew_clock_anchor(format::FileHeader* file) noexcept;

}  // namespace traintrace
