// Descriptors of the tracer's own threads.
#pragma once

#include <cstdint>

namespace traintrace {

// From now on the calling thread, and those that it creates, have a table of descriptors of their
// own, which is empty: what they open never takes a number that the job counts on ("close 0, 1 and
// 2, then open"), and no child of the job's inherits it.  Linux 5.9; before, or where a
// sandbox refuses it, they share the job's, as any thread does.
void take_own_files() noexcept;
// What a thread created by one that has them calls first.
void share_own_files(bool of_creator) noexcept;
bool has_own_files() noexcept;

// What is known without asking a server, which may be gone.  All 0: nothing.
struct FileKind {
  uint32_t mode;
  uint32_t device_major;
  uint32_t device_minor;
  uint64_t inode;
  bool operator==(const FileKind&) const = default;
};
FileKind kind_of_file(int folder, const char* path) noexcept;  // path "": the descriptor's own

// For a thread that has its own: the job's standard error, to be closed by the caller.  -1: errno
// is EBADF where the job has none, else it cannot be had from here.
int borrow_stderr() noexcept;

}  // namespace traintrace
