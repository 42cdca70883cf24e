// A thread's registers and the top of its stack, as they were at one instant.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/live/proc_files.h"

namespace traintrace {

// Numbers of registers as DWARF counts them (System V psABI).
#if defined(__x86_64__)
inline constexpr int kStackPointerRegister = 7;
inline constexpr int kRegisters = 16;
#elif defined(__aarch64__)
inline constexpr int kStackPointerRegister = 31;
inline constexpr int kRegisters = 32;
#endif

struct StackSnapshot {
  int tid = 0;
  uint64_t instruction = 0;
  std::array<std::optional<uint64_t>, kRegisters> registers;
  uint64_t begin = 0;  // address of `bytes`
  std::vector<uint8_t> bytes;
  bool stopped = false;

  // Nothing where that lies outside.
  template <class T>
  std::optional<T> load(uint64_t address) const {
    T value;
    if (address < begin || address - begin + sizeof value > bytes.size()) {
      return std::nullopt;
    }
    __builtin_memcpy(&value, &bytes[address - begin], sizeof value);
    return value;
  }
};

// Without stopping anybody: of a thread that waits in a system call, of which /proc tells stack
// pointer and return address only.  Nothing where the thread runs, or moved while it was read.
std::optional<StackSnapshot> watch_stack(const ProcProcess& process, int tid);

// Stops the thread with ptrace for as long as it takes to read its registers and copy its stack,
// some 100 us; `stopped_ns` is no less than that.  A system call that it waits in is resumed by the
// kernel; a few that cannot be (epoll_wait, see signal(7)) return EINTR to the job.
struct StoppedStack {
  std::optional<StackSnapshot> snapshot;
  int64_t stopped_ns = 0;
};
StoppedStack stop_and_copy_stack(const ProcProcess& process, int tid);

}  // namespace traintrace
