// Waiting for a word, also of another process.  System calls only: no cancellation point.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>

namespace traintrace {

// Returns when the word is not `seen`, at a wake, or after that time; now and then without reason.
// False: at once, as a filter of system calls forbids it.
inline bool futex_wait(uint32_t* word, uint32_t seen, uint64_t for_ns) noexcept {
  const timespec time = {static_cast<time_t>(for_ns / 1'000'000'000),
                         static_cast<long>(for_ns % 1'000'000'000)};
  return syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, nullptr, 0) == 0 || errno == EAGAIN ||
         errno == ETIMEDOUT || errno == EINTR;
}

// As above; where a filter forbids to wait for a word, it sleeps for that time.  False: it cannot
// sleep either, so whoever waits in a loop would spin.
inline bool futex_wait_or_sleep(uint32_t* word, uint32_t seen, uint64_t for_ns) noexcept {
  if (futex_wait(word, seen, for_ns)) {
    return true;
  }
  const timespec time = {static_cast<time_t>(for_ns / 1'000'000'000),
                         static_cast<long>(for_ns % 1'000'000'000)};
  return nanosleep(&time, nullptr) == 0 || errno == EINTR;
}

inline void futex_wake(uint32_t* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace traintrace
