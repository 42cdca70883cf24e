// The names in a folder, without readdir, which allocates.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "interpose/base/files.h"

namespace traintrace {

// `body(name)` for each entry whose name has that ending.  The folder is read from its beginning.
template <class Body>
void for_each_entry(int folder, const char* ending, Body body) noexcept {
  struct Entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
  };
  alignas(Entry) char block[4096];
  lseek(folder, 0, SEEK_SET);
  long got = 0;
  while ((got = syscall(SYS_getdents64, folder, block, sizeof block)) > 0) {
    for (long at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const Entry*>(block + at);
      if (ends_with(entry->name, ending)) {
        body(entry->name);
      }
      at += entry->bytes;
    }
  }
}

}  // namespace traintrace
