#include "interpose/record/map_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace traintrace {
namespace {

// Whether mlockall(MCL_FUTURE) is in force: then a page is there before anybody uses it.
bool locks_new_memory() {
  constexpr size_t kPage = 4096;
  void* const page =
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return errno == EAGAIN;
  }
  unsigned char resident = 0;
  const bool locks = mincore(page, kPage, &resident) == 0 && (resident & 1) != 0;
  munmap(page, kPage);
  return locks;
}

// What nobody may read is not populated when it is mapped, and what is not locked is not when that
// changes.  Only where it must be: under valgrind each change of so much takes 100 ms.
void* map_unlocked(int flags, int file, size_t bytes) {
  if (!locks_new_memory()) {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }
  void* const memory = mmap(nullptr, bytes, PROT_NONE, flags | MAP_NORESERVE, file, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  munlock(memory, bytes);
  if (mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, bytes);
    return nullptr;
  }
  return memory;
}

}  // namespace

bool may_lock_too_little(size_t bytes) noexcept {
  const int saved_errno = errno;
  bool too_little = false;
  if (locks_new_memory()) {
    void* const memory =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    too_little = memory == MAP_FAILED;
    if (!too_little) {
      munmap(memory, bytes);
    }
  }
  errno = saved_errno;
  return too_little;
}

// Where the system gives huge pages to whoever does not refuse them, the first word of a table that
// is touched would take 2 MiB.
void* map_sparse(size_t bytes) noexcept {
  const int saved_errno = errno;
  void* const memory = map_unlocked(MAP_PRIVATE | MAP_ANONYMOUS, -1, bytes);
  if (memory) {
    madvise(memory, bytes, MADV_NOHUGEPAGE);
  }
  errno = saved_errno;
  return memory;
}

bool populate(void* memory, size_t bytes) noexcept {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t before = reinterpret_cast<uintptr_t>(memory) % page;
  return madvise(static_cast<char*>(memory) - before, before + bytes, MADV_POPULATE_WRITE) == 0;
}

void* map_sparse_file(int file, size_t bytes) noexcept {
  return map_unlocked(MAP_SHARED, file, bytes);
}

}  // namespace traintrace
