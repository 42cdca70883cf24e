#include "interpose/life/thread_count.h"

#include "interpose/calls/elf_next.h"

namespace traintrace {
namespace {

// glibc's, for debuggers (nptl_db).  Null: it has none, or another C library.
unsigned* counted_threads() {
  return static_cast<unsigned*>(variable_elsewhere("__nptl_nthreads", sizeof(unsigned)));
}

constinit thread_local unsigned* t_left = nullptr;

}  // namespace

bool leave_thread_count() noexcept {
  constexpr unsigned kMost = 1U << 22;  // PID_MAX_LIMIT: what is larger is something else
  unsigned* const count = counted_threads();
  const unsigned now = count ? __atomic_load_n(count, __ATOMIC_RELAXED) : 0;
  if (now == 0 || now > kMost) {
    return true;
  }
  if (__atomic_fetch_sub(count, 1U, __ATOMIC_ACQ_REL) == 1) {
    __atomic_fetch_add(count, 1U, __ATOMIC_ACQ_REL);
    return false;
  }
  t_left = count;
  return true;
}

void rejoin_thread_count() noexcept {
  if (t_left != nullptr) {
    __atomic_fetch_add(t_left, 1U, __ATOMIC_ACQ_REL);
    t_left = nullptr;
  }
}

}  // namespace traintrace
