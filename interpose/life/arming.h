// When recording starts: at the first call that shows that this process uses a GPU.
#pragma once

namespace traintrace {

// Starts recording unless that was tried before.  The tracer's own thread does it, on a stack of
// its own and out of reach of the job's signals and cancellations; the caller waits for at most a
// second, once in the life of its thread, else its call goes unrecorded.  True: armed.  Keeps
// errno.
bool arm() noexcept;

// Not forked from the process that loaded this library.
bool is_process_of_load() noexcept;

// Notes how the process ends; what comes after it is still recorded.
void note_exit(int kind, int status) noexcept;

}  // namespace traintrace
