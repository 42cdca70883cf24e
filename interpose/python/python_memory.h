// Three ways to read memory of this process that is not ours: in place, after asking the kernel,
// and by letting the kernel copy it.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include <sys/syscall.h>
#include <sys/uio.h>
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

// For what other threads may give back meanwhile: the kernel copies page by page, so nothing can
// fault.  What was copied stays until `forget`, so that a look costs few system calls.
class CopiedMemory {
 public:
  template <class T>
  bool load(uint64_t address, T& value) noexcept {
    return copy(address, &value, sizeof value);
  }

  bool copy(uint64_t address, void* to, size_t bytes) noexcept {
    auto* out = static_cast<uint8_t*>(to);
    while (bytes != 0) {
      const uint64_t offset = address % kPage;
      const size_t part = bytes < kPage - offset ? bytes : kPage - offset;
      const uint8_t* const page = page_at(address / kPage);
      if (page == nullptr) {
        return false;
      }
      std::memcpy(out, page + offset, part);
      out += part;
      address += part;
      bytes -= part;
    }
    return true;
  }

  void forget() noexcept {
    for (uint64_t& page : pages_) {
      page = 0;
    }
  }
  // A sandbox forbids it.
  bool is_refused() const noexcept { return refused_; }

 private:
  static constexpr uint64_t kPage = 4096;
  static constexpr size_t kPages = 32;

  const uint8_t* page_at(uint64_t page) noexcept {
    const size_t place = page % kPages;
    if (page == 0 || pages_[place] == page) {
      return page == 0 ? nullptr : bytes_[place];
    }
    const int saved = errno;
    const iovec here = {bytes_[place], kPage};
    const iovec there = {reinterpret_cast<void*>(page * kPage), kPage};
    const long copied = syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0);
    refused_ = refused_ || (copied < 0 && errno != EFAULT);
    errno = saved;
    pages_[place] = copied == static_cast<long>(kPage) ? page : 0;
    return pages_[place] != 0 ? bytes_[place] : nullptr;
  }

  uint64_t pages_[kPages] = {};  // 0: nothing
  bool refused_ = false;
  uint8_t bytes_[kPages][kPage] = {};
};

}  // namespace traintrace
