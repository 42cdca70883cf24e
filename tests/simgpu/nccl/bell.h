// A doorbell that threads of several processes sleep on: a counter and a futex.
//
// Nobody owns it, so the death of a process that waits or rings leaves it usable; at worst a later
// ring makes one system call too many.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace simgpu::nccl {

class Bell {
 public:
  uint32_t read() const { return value_.load(std::memory_order_acquire); }

  // Call after the change that others wait for.
  void ring() {
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) {
      syscall(SYS_futex, word(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
  }

  // Sleeps until somebody rang after `seen` was read, or for `timeout_ns`.
  void wait(uint32_t seen, int64_t timeout_ns) {
    const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, word(), FUTEX_WAIT, seen, &timeout, nullptr, 0);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  uint32_t* word() { return reinterpret_cast<uint32_t*>(&value_); }

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
                  std::atomic<uint64_t>::is_always_lock_free,
              "shared between processes");

inline void relax() {
#if defined(__aarch64__)
  asm volatile("yield");
#else
  __builtin_ia32_pause();
#endif
}

// Few spins: there are more ranks than cores.  The nap bounds how late a stop is seen that rings no
// bell (a context that is destroyed).
inline constexpr int kSpins = 32;
inline constexpr int64_t kNapNs = 20'000'000;

// Returns true as soon as ready(), false as soon as stop().  Whoever makes ready() true rings
// `bell`.
template <class Ready, class Stop>
bool wait_on(Bell& bell, Ready&& ready, Stop&& stop) {
  for (int round = 0;; ++round) {
    const uint32_t seen = bell.read();
    if (ready()) {
      return true;
    }
    if (stop()) {
      return false;
    }
    if (round < kSpins) {
      relax();
    } else {
      bell.wait(seen, kNapNs);
    }
  }
}

}  // namespace simgpu::nccl
