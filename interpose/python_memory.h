// Two ways to read memory of this process that is not ours: in place, and after asking the kernel.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include <sys/syscall.h>
#include <unistd.h>

#include "cpython/memory.h"

namespace traintrace {

// For what has been proven to be laid out as expected.
struct DirectMemory {
  template <class T>
  bool load(uint64_t address, T& value) const noexcept {
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    return true;
  }
};

// Cold: a system call per page, more or less.
class ProbedMemory {
 public:
  template <class T>
  bool load(uint64_t address, T& value) noexcept {
    static_assert(sizeof(T) <= kPage);
    if (!readable(address, sizeof value)) {
      return false;
    }
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    return true;
  }

  bool readable(uint64_t address, size_t bytes) noexcept {
    if (bytes == 0 || address < kPage || address + bytes < address) {
      return bytes == 0;
    }
    const uint64_t last = (address + bytes - 1) / kPage;
    for (uint64_t page = address / kPage; page <= last; ++page) {
      if (!readable_page(page)) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr uint64_t kPage = 4096;  // the smallest there is

  bool readable_page(uint64_t page) noexcept {
    uint64_t& known = known_[page % kKnown];
    if (known == page) {
      return true;
    }
    // The kernel reads the new mask before it looks at what is to be done with it (-1: nothing), so
    // this is EFAULT or EINVAL.  Unlike process_vm_readv no sandbox forbids it.
    const int saved = errno;
    const long result = syscall(SYS_rt_sigprocmask, -1, page * kPage, nullptr, 8);
    const bool good = result == -1 && errno == EINVAL;
    errno = saved;
    if (good) {
      known = page;
    }
    return good;
  }

  static constexpr size_t kKnown = 16;
  uint64_t known_[kKnown] = {};
};

}  // namespace traintrace
