// Other processes of this machine, and their files.
#pragma once
#include <sys/types.h>

#include <cstdint>

namespace simgpu {

// When the process began, in clock ticks after boot; 0 if it is dead or never was.  With the pid it
// identifies a process also after the pid was used again.
uint64_t start_time_of(pid_t pid);

// A file of a process, to be sent to another one in the 64 bytes of an IPC handle.
struct RemoteFile {
  int32_t pid;
  int32_t file;
  uint64_t start_time;

  static RemoteFile own(int file);
  bool ours() const;
  // A descriptor of this process, or -1 if the other one is gone.
  int open() const;
};

}  // namespace simgpu
