// Another process's memory, read without stopping it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace traintrace {

// What is read may change meanwhile; nothing in it is trusted.
class OtherMemory {
 public:
  explicit OtherMemory(pid_t pid) : pid_(pid) {}

  // All of it or false: unmapped, gone, or not permitted (the kernel's PTRACE_MODE_ATTACH).
  bool read(uint64_t address, void* into, size_t bytes) const;

  template <class T>
  bool load(uint64_t address, T& value) const {
    return read(address, &value, sizeof value);
  }

 private:
  pid_t pid_;
};

}  // namespace traintrace
