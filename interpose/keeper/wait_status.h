// How a process ended that is no child of ours.
#pragma once

namespace traintrace {

// As wait(2) gives it.  False: the kernel does not tell (it does from Linux 6.15 on, once the
// parent has waited for it).  `process` is a pidfd, or -1.
bool wait_status_of(int process, int& status) noexcept;

}  // namespace traintrace
