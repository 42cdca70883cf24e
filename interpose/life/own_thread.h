// The tracer's one thread.  It says each second that the process lives, renews the clock anchors,
// and does what must stay off the hot path or could block.
#pragma once

#include "format/trace_format.h"

namespace traintrace {

// `arm` runs first, in the new thread: whoever waits for recording to begin needs no stack for it.
// The thread ends where it returns null, which means that nothing is recorded.
using ArmInOwnThread = format::FileHeader* (*)() noexcept;

// Call it with all signals blocked: the thread inherits that, for it must not take signals that
// are meant for the job.  False: the system allows no more threads.
bool start_own_thread(ArmInOwnThread arm) noexcept;

// From any thread; nothing where another one is at it.
void renew_clock_anchor(format::FileHeader* file) noexcept;

}  // namespace traintrace
