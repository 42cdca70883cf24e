#include "cuda/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simgpu {

// Field 22 of /proc/PID/stat.
uint64_t start_time_of(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  FILE* file = fopen(path, "re");
  if (!file) {
    return 0;
  }
  char text[1024] = {};
  const size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  const char* rest = length ? strrchr(text, ')') : nullptr;  // the name may contain anything
  if (!rest || rest[1] == '\0' || rest[2] == 'Z' || rest[2] == 'X') {
    return 0;
  }
  ++rest;  // the blank before field 3
  for (int field = 3; field < 22 && rest; ++field) {
    rest = strchr(rest + 1, ' ');
  }
  return rest ? strtoull(rest, nullptr, 10) : 0;
}

RemoteFile RemoteFile::own(int file) {
  const pid_t pid = getpid();
  return {pid, file, start_time_of(pid)};
}

bool RemoteFile::ours() const {
  return pid == getpid();
}

int RemoteFile::open() const {
  if (start_time == 0 || start_time_of(pid) != start_time) {
    return -1;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, file);
  return ::open(path, O_RDWR | O_CLOEXEC);
}

}  // namespace simgpu
