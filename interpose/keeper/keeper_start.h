// Starts the keeper of this process, and waits for it at the end.
#pragma once

#include "format/trace_format.h"

namespace traintrace {

// Who copies the trace to its folder.
enum class Keeping { kNotYet, kProcess, kThread, kNobody };

// By the tracer's own thread, with all signals blocked.  `descriptor` is the memory's; the keeper
// gets one of its own.
Keeping start_keeper(format::FileHeader* memory, int descriptor) noexcept;

// At an exit of the process: until what is there now is copied, a quarter of a second at most.
void wait_for_copy(format::FileHeader* memory) noexcept;

// By the own thread, each second.  A keeper that was killed, or does not begin, is replaced by a
// thread.
void look_after_keeper(format::FileHeader* memory) noexcept;

bool keeper_is_thread() noexcept;
// After a last copy; the thread ends soon.
void end_keeper_thread() noexcept;
// In a forked child, which has neither.
void forget_keeper() noexcept;

}  // namespace traintrace
