#include "interpose/stacks/loader_walk.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace traintrace {
namespace {

constexpr int kLooks = 1000;
constexpr timespec kBetweenLooks = {0, 100'000};

std::atomic<int> g_walks{0};  // by all threads
std::atomic<int> g_forks{0};  // under way
std::atomic<uint32_t> g_forks_begun{0};
std::atomic<uint32_t> g_too_long{0};  // the fork that a walk waited for in vain, as counted above
std::atomic<bool> g_given_up{
    false};  // fork() waited in vain: a thread was cancelled in its walk, say
constinit thread_local int t_walks = 0;

// Whether it is so within some 100 ms.  No cancellation point, unlike nanosleep().
template <typename Condition>
bool comes_true(Condition condition) {
  const int saved_errno = errno;
  bool is_true = condition();
  for (int look = 0; !is_true && look < kLooks; ++look) {
    syscall(SYS_nanosleep, &kBetweenLooks, nullptr);
    is_true = condition();
  }
  errno = saved_errno;
  return is_true;
}

void before_fork() {
  g_forks_begun.fetch_add(1);
  g_forks.fetch_add(1);
  const auto only_own_walk = [] { return g_walks.load() <= t_walks; };
  if (!g_given_up.load() && !comes_true(only_own_walk)) {
    g_given_up.store(true);
  }
}

void after_fork_in_parent() {
  g_forks.fetch_sub(1);
}

void after_fork_in_child() {
  g_forks.store(0);
  g_walks.store(t_walks);
}

// Counted first and looked at then, as before_fork() does: one of the two sees the other.
bool begins_outside_of_forks() {
  g_walks.fetch_add(1);
  if (g_forks.load() == 0) {
    return true;
  }
  g_walks.fetch_sub(1);
  return false;
}

// A fork that takes long, or whose other handlers wait for this very thread, is waited for once.
void begin_walk() {
  const bool is_inner = t_walks++ > 0;  // at first: a signal handler may fork here
  const uint32_t fork = g_forks_begun.load();
  if (is_inner || g_given_up.load() || (fork != 0 && g_too_long.load() == fork)) {
    g_walks.fetch_add(1);
  } else if (!comes_true(begins_outside_of_forks)) {
    g_too_long.store(fork);
    g_walks.fetch_add(1);
  }
}

void end_walk() {
  g_walks.fetch_sub(1);
  --t_walks;
}

}  // namespace

int walk_loader(int (*callback)(dl_phdr_info*, size_t, void*), void* context) noexcept {
  begin_walk();
  const int result = dl_iterate_phdr(callback, context);
  end_walk();
  return result;
}

void let_forks_wait_for_walks() noexcept {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

}  // namespace traintrace
