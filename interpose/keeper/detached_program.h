// Starts a program beside the job, of which the job notices nothing: no SIGCHLD and no child that
// it did not start (the program is a grandchild, whose parent has no exit signal and ends at once),
// no copy of its page tables (both share its memory until exec), no handler of its own in the wrong
// process (signals are blocked), no descriptor of its own kept open.
#pragma once

namespace traintrace {

// The one descriptor beside the standard ones, which are /dev/null, that the program finds open.
inline constexpr int kPassedDescriptor = 3;

struct DetachedProgram {
  const char* path;
  char** arguments;  // the first is the program's name; the environment is empty
  int descriptor;
};

// One at a time.  System calls only: functions of libc may take locks, or be cancelled.  False: no
// process could be made, or the program cannot be executed.
bool start_detached(const DetachedProgram& program) noexcept;
// In a forked child: a thread of its parent may have been at it.
void forget_detached() noexcept;

}  // namespace traintrace
