#include "interpose/base/own_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace traintrace {
namespace {

constexpr unsigned kUnshare = 2;  // CLOSE_RANGE_UNSHARE
constinit thread_local bool t_own_files = false;

}  // namespace

// In one step, so that nothing is ever copied that would have to be closed.
void take_own_files() noexcept {
  t_own_files = syscall(SYS_close_range, 0U, ~0U, kUnshare) == 0;
}

void share_own_files(bool of_creator) noexcept {
  t_own_files = of_creator;
}

bool has_own_files() noexcept {
  return t_own_files;
}

FileKind kind_of_file(int folder, const char* path) noexcept {
  struct statx status = {};
  const long failed = syscall(SYS_statx, folder, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                              STATX_TYPE | STATX_INO, &status);
  return failed != 0 ? FileKind{}
                     : FileKind{status.stx_mode, status.stx_dev_major, status.stx_dev_minor,
                                status.stx_ino};
}

// Containers may refuse pidfd_getfd.  Opening it anew will do unless it is a file: then what the
// job writes next, at its own offset, would go over what we wrote.
int borrow_stderr() noexcept {
  const auto process = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (process >= 0) {
    const auto file = static_cast<int>(syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0));
    close(process);
    if (file >= 0) {
      return file;
    }
  }
  constexpr const char* kPath = "/proc/self/fd/2";  // that of the process, not of the thread
  const uint32_t mode = kind_of_file(AT_FDCWD, kPath).mode;
  if (mode == 0) {
    errno = EBADF;
    return -1;
  }
  if (!S_ISFIFO(mode) && !S_ISCHR(mode)) {
    errno = EPERM;
    return -1;
  }
  return open(kPath, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

}  // namespace traintrace
