#include "interpose/stacks/unwind_stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace traintrace {

constinit thread_local OwnStack t_own_stack{};

namespace {

constexpr uint64_t kPage = 4096;  // or a part of a page
// Asking about the 8 MiB of an ordinary stack takes 0.2 ms: once per thread that is affordable.
constexpr uint64_t kMaxPages = 2048;

constexpr uint64_t page_of(uint64_t address) {
  return address & ~(kPage - 1);
}

constexpr uint8_t kMaxFailures = 16;

std::atomic<uint64_t> g_probes{0};

bool all_readable(uint64_t from, uint64_t to) noexcept {
  if (to - from > kMaxPages * kPage) {
    return false;
  }
  for (uint64_t page = from; page < to; page += kPage) {
    if (!is_readable(page)) {
      return false;
    }
  }
  return true;
}

// An address that lies above all frames of the calling thread, on the same mapping.
uint64_t outermost_address() noexcept {
  if (syscall(SYS_gettid) == getpid()) {
    // The kernel puts the program's name at the upper end of the first thread's stack.
    return getauxval(AT_EXECFN) & ~uint64_t{7};
  }
  // The C library keeps what it knows of a thread at the upper end of the thread's stack.
  return static_cast<uint64_t>(pthread_self());
}

// Lengthens what is known of the own stack to `address`, if it is on it.
[[gnu::noinline, gnu::cold]] bool learn_own(uint64_t address) noexcept {
  OwnStack& own = t_own_stack;
  if (own.failures >= kMaxFailures) {
    return false;
  }
  const uint64_t low = page_of(address);
  const uint64_t high = own.high != 0 ? own.low : outermost_address();
  if (low >= high || !all_readable(low, high)) {
    ++own.failures;
    return false;
  }
  // In this order: whoever leads out between the two (siglongjmp) leaves nothing known.
  own.low = low;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (own.high == 0) {
    own.high = high;
  }
  return true;
}

}  // namespace

bool stack_around(uint64_t address, bool mapped, StackRange& range) noexcept {
  const OwnStack& own = t_own_stack;
  if ((address >= own.low && address < own.high) || learn_own(address)) {
    range = {own.low, own.high, true};
    return true;
  }
  const uint64_t page = page_of(address);
  range = {page, page + kPage, false};
  return mapped || is_readable(page);
}

[[gnu::cold]] bool is_there_still(uint64_t address) noexcept {
  StackRange range;
  return stack_around(address, false, range);
}

bool extend_to(StackRange& range, uint64_t address) noexcept {
  const uint64_t page = page_of(address);
  if ((address & 7) != 0 || !is_readable(page)) {
    return false;
  }
  if (page == range.high) {
    range.high += kPage;
  } else {
    range = {page, page + kPage, false};
  }
  return true;
}

// An operation that does not exist, on a signal set at `address`: the kernel copies the set before
// it looks at the operation, so its error says whether it could.  Changes nothing, needs no
// descriptor, and no sandbox forbids it.
bool is_readable(uint64_t address) noexcept {
  const int saved = errno;
  g_probes.fetch_add(1, std::memory_order_relaxed);
  constexpr int kNoSuchOperation = 0x7EADBEE7;
  constexpr size_t kSetBytes = 8;  // the kernel's, not the C library's
  const long result = syscall(SYS_rt_sigprocmask, kNoSuchOperation, address, nullptr, kSetBytes);
  const bool readable = result == -1 && errno == EINVAL;
  errno = saved;
  return readable;
}

uint64_t stack_probes() noexcept {
  return g_probes.load(std::memory_order_relaxed);
}

}  // namespace traintrace
