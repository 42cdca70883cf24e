// Who this process is: its name among all traces.
#pragma once

#include <cstdint>

#include "interpose/base/files.h"

namespace traintrace {

struct Identity {
  char host[64];
  int32_t pid;
  int32_t parent_pid;
  uint64_t start_time;  // field 22 of /proc/PID/stat
  uint64_t boot_id[2];
  uint64_t pid_namespace;  // 0: not known, as the next one
  uint64_t mount_namespace;
  uint32_t launch_rank;  // + 1; 0: no launcher said it
  uint32_t launch_world;
};
Identity identify() noexcept;

// Field 22 of /proc/PID/stat, which tells a process from a later one with its number; 0: there is
// no such process, or it may not be read.
uint64_t start_time_of(int32_t pid) noexcept;

// Whether the process still runs.  One that nobody has waited for (a zombie) does not; one whose
// first thread alone has ended does, and where /proc tells nothing, whatever has that number.
bool is_running(int32_t pid, uint64_t start_time) noexcept;

// How a process ended that nobody has waited for yet, as wait(2) gives it.  False: it is no zombie,
// or its status is 0, which is also what the kernel says to whom it does not tell.
bool zombie_status_of(int32_t pid, uint64_t start_time, int& status) noexcept;

// HOST.PID.STARTTIME, and a number from the second attempt on: after an exec the process has the
// same name again.
void name_trace(Text& into, const char* host, int32_t pid, uint64_t start_time, int attempt,
                const char* ending) noexcept;

// Equal for the processes of one job, as far as their environment tells; else (`of_launcher` is
// false) of this process alone.
uint64_t run_key_of(const Identity& identity, bool& of_launcher) noexcept;

}  // namespace traintrace
