#include "format/pack_name.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming)
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace traintrace::format {
namespace {

// What cannot be read says nothing, and may be replaced: a pack of this process that was damaged.
bool is_of_another(int folder, const char* name, const PackHead& head) {
  const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  PackHead there = {};
  const bool whole = pread(file, &there, sizeof there, 0) == ssize_t{sizeof there} &&
                     memcmp(there.magic, kPackMagic, sizeof there.magic) == 0 &&
                     XXH3_64bits(&there, offsetof(PackHead, checksum)) == there.checksum;
  close(file);
  return whole && (memcmp(there.boot_id, head.boot_id, sizeof there.boot_id) != 0 ||
                   there.start_time != head.start_time || there.pid != head.pid ||
                   (there.armed_ticks != 0 && there.armed_ticks != head.armed_ticks));
}

// Without replacing anything; EEXIST: the name is taken.
int rename_to_new(int folder, const char* first, const char* name) {
  if (syscall(SYS_renameat2, folder, first, folder, name, RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return errno;
  }
  if (linkat(folder, first, folder, name, 0) == 0) {  // NFS cannot rename so
    unlinkat(folder, first, 0);
    return 0;
  }
  if (errno == EEXIST || faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
    return EEXIST;
  }
  return renameat(folder, first, folder, name) == 0 ? 0 : errno;  // nor link
}

}  // namespace

int name_pack(int folder, const char* first, const char* stem, const PackHead& head,
              char (&name)[kMostPackName]) noexcept {
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    char number[16] = "";
    if (attempt != 0) {
      snprintf(number, sizeof number, ".%d", attempt);
    }
    const int length = snprintf(name, sizeof name, "%s%s%s", stem, number, kPackSuffix);
    if (length >= static_cast<int>(sizeof name)) {
      return ENAMETOOLONG;
    }
    const int problem = rename_to_new(folder, first, name);
    if (problem != EEXIST) {
      return problem;
    }
    if (!is_of_another(folder, name, head)) {
      return renameat(folder, first, folder, name) == 0 ? 0 : errno;
    }
  }
  return EEXIST;
}

}  // namespace traintrace::format
