#include "interpose/map_memory.h"

#include <sys/mman.h>

namespace traintrace {
namespace {

// What nobody may read is not populated when it is mapped, and what is not locked is not when that
// changes.
void* map_unlocked(int flags, int file, size_t bytes) {
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

void* map_sparse(size_t bytes) noexcept {
  return map_unlocked(MAP_PRIVATE | MAP_ANONYMOUS, -1, bytes);
}

void* map_sparse_file(int file, size_t bytes) noexcept {
  return map_unlocked(MAP_SHARED, file, bytes);
}

}  // namespace traintrace
