#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "cases.h"

namespace unharmed {
namespace {

std::atomic<int> g_count = 0;
pthread_key_t g_key;

void call_at_end_of_thread(void* rounds) {
  calls(5);
  ++g_count;
  const auto left = reinterpret_cast<intptr_t>(rounds) - 1;
  pthread_setspecific(g_key, left > 0 ? reinterpret_cast<void*>(left) : nullptr);
}

void call_twice() {
  calls(2);
}

void call_and_count(sigval) {
  calls(2);
  ++g_count;
}

void* call_for_ever(void*) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
  for (;;) {
    cudaMemset(nullptr, 0, 0);
  }
}

}  // namespace

// How much it can still map: all new memory counts against a limit of 8 MiB.
int locks_little() {
  constexpr rlim_t kLimit = 8U << 20;
  constexpr size_t kStep = 64U << 10;
  free(malloc(100));  // the C library gets its first memory now
  const rlimit limit = {kLimit, kLimit};
  const bool limited = setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && become_nobody();
  const bool locks = limited && mlockall(MCL_FUTURE) == 0;
  calls(100);
  size_t bytes = 0;
  while (bytes < 2 * kLimit && mmap(nullptr, kStep, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
    bytes += kStep;
  }
  char line[64];
  const int length = snprintf(line, sizeof line, "%d %zu\n", locks, bytes);
  return write(STDOUT_FILENO, line, static_cast<size_t>(length)) == length ? 3 : 4;
}

// Destructors of thread-specific data, also in threads that have made no call before, and again in
// the next round of destructors.
int calls_at_end_of_threads() {
  pthread_key_create(&g_key, call_at_end_of_thread);
  for (intptr_t i = 0; i < 200; ++i) {
    std::thread([i] {
      pthread_setspecific(g_key, reinterpret_cast<void*>(3));
      calls(i % 2 == 0 ? 0 : 3);
    }).join();
  }
  printf("%d\n", g_count.load());
  return 3;
}

int calls_when_it_forks() {
  pthread_atfork(call_twice, call_twice, call_twice);
  calls(3);
  int right = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      calls(3);
      exit(4);
    }
    int status = 0;
    right += waitpid(child, &status, 0) == child && status == 4 << 8 ? 1 : 0;
  }
  printf("%d\n", right);
  return 3;
}

int calls_in_threads_of_timers() {
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_notify_function = call_and_count;
  timer_t timer = nullptr;
  const itimerspec often = {{0, 2'000'000}, {0, 2'000'000}};
  const bool set = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
                   timer_settime(timer, 0, &often, nullptr) == 0;
  while (set && g_count < 100) {
    usleep(1000);
  }
  timer_delete(timer);
  printf("%d\n", set);
  return 3;
}

int cancels_at_any_instruction() {
  int ended = 0;
  for (int i = 0; i < 200; ++i) {
    pthread_t thread;
    pthread_create(&thread, nullptr, call_for_ever, nullptr);
    usleep(static_cast<useconds_t>(100 + i));
    pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    ended += result == PTHREAD_CANCELED ? 1 : 0;
  }
  calls(100);
  printf("%d\n", ended);
  return 3;
}

}  // namespace unharmed
