// test: link=none
// Calls that do not come back as they should: longjmp, exceptions, cancelled threads, signals in
// the middle of everything.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;

struct Vendor {
  int (*synchronize)();
  int (*release)(unsigned long);
  int (*simulate)(void*);
  void (*set_inside)(void (*)());
};

Vendor open_vendor() {
  void* const library = dlopen(PRELOAD_FIXTURES "/libfake_vendor.so", RTLD_NOW);
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  Vendor vendor = {};
  find(vendor.synchronize, "cuCtxSynchronize");
  find(vendor.release, "cuMemFree_v2");
  find(vendor.simulate, "ncclGroupSimulateEnd");
  find(vendor.set_inside, "set_inside");
  return vendor;
}

RawTrace trace_of(const std::string& role, Outcome& outcome) {
  const Folder folder;
  preload::Program program = preload::self(role);
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_RING_MB", "128"}};
  outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << "wait status " << outcome.status << ": " << outcome.errors;
  EXPECT_EQ(folder.traces().size(), 1u);
  return folder.traces().empty() ? RawTrace() : preload::read_raw(folder.traces().front());
}

jmp_buf g_back;

[[gnu::noinline]] int call_from_deeper(const Vendor& vendor, int depth) {
  volatile char room[512] = {};
  const int result = depth ? call_from_deeper(vendor, depth - 1) : vendor.release(7);
  return result + room[0];
}

ROLE(jump) {
  static const Vendor vendor = open_vendor();
  vendor.set_inside([] { longjmp(g_back, 1); });
  for (int depth = 0; depth < 20; ++depth) {
    if (!setjmp(g_back)) {
      vendor.synchronize();
    }
    if (call_from_deeper(vendor, depth) != 0) {
      return 1;
    }
  }
  return 0;
}

TEST(Interrupted, ByLongjmp) {
  Outcome outcome;
  const RawTrace trace = trace_of("jump", outcome);
  EXPECT_EQ(trace.entered("cuCtxSynchronize"), 20u);
  EXPECT_EQ(trace.left("cuCtxSynchronize"), 0u);
  EXPECT_EQ(trace.entered("cuMemFree_v2"), 20u);
  EXPECT_EQ(trace.left("cuMemFree_v2"), 20u);
}

ROLE(exception) {
  const Vendor vendor = open_vendor();
  vendor.set_inside([] { throw std::runtime_error("out"); });
  int caught = 0;
  for (int i = 0; i < 10; ++i) {
    try {
      vendor.synchronize();
    } catch (const std::runtime_error&) {
      ++caught;
    }
    vendor.release(7);
  }
  return caught == 10 ? 0 : 1;
}

TEST(Interrupted, ByAnException) {
  Outcome outcome;
  const RawTrace trace = trace_of("exception", outcome);
  EXPECT_EQ(trace.entered("cuCtxSynchronize"), 10u);
  EXPECT_EQ(trace.left("cuMemFree_v2"), 10u);
}

std::atomic<bool> g_waiting = false;

ROLE(cancel) {
  static const Vendor vendor = open_vendor();
  vendor.set_inside([] {
    g_waiting = true;
    pause();
  });
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        vendor.synchronize();
        return nullptr;
      },
      nullptr);
  while (!g_waiting) {
    usleep(1000);
  }
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  vendor.release(7);
  return result == PTHREAD_CANCELED ? 0 : 1;
}

TEST(Interrupted, ByCancellation) {
  Outcome outcome;
  const RawTrace trace = trace_of("cancel", outcome);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.entered("cuCtxSynchronize"), 1u);
  EXPECT_EQ(trace.left("cuCtxSynchronize"), 0u);
  EXPECT_EQ(trace.left("cuMemFree_v2"), 1u);
}

// A handler's own calls, in the other layer, so that none is a part of what it interrupts.
Vendor g_vendor;
volatile sig_atomic_t g_handled = 0;

void handler(int) {
  g_vendor.simulate(nullptr);
  g_handled = g_handled + 1;
}

ROLE(signals) {
  g_vendor = open_vendor();
  signal(SIGALRM, handler);
  constexpr itimerval kOften = {{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &kOften, nullptr);
  long calls = 0;
  while (g_handled < 1000 && calls < 300'000) {  // what the ring has room for
    g_vendor.release(static_cast<unsigned long>(++calls));
  }
  constexpr itimerval kNever = {};
  setitimer(ITIMER_REAL, &kNever, nullptr);
  std::printf("%ld %d\n", calls, static_cast<int>(g_handled));
  return 0;
}

TEST(Interrupted, BySignalHandlersThatCall) {
  Outcome outcome;
  RawTrace trace = trace_of("signals", outcome);
  // A handler's records stand before the one that the interrupted call was about to write.
  std::erase_if(trace.problems, [](const std::string& problem) {
    return problem.find("goes back in time") != std::string::npos;
  });
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  long calls = 0;
  long handled = 0;
  ASSERT_EQ(std::sscanf(outcome.output.c_str(), "%ld %ld", &calls, &handled), 2);
  const auto nested = trace.stats.find("nested-in-signal");
  const uint64_t refused = nested == trace.stats.end() ? 0 : nested->second;
  EXPECT_FALSE(trace.stats.contains("ring-overwritten"));
  EXPECT_EQ(trace.entered("ncclGroupSimulateEnd") + refused, static_cast<uint64_t>(handled));
  EXPECT_EQ(trace.left("cuMemFree_v2"), static_cast<uint64_t>(calls));
}

// Calls that the trace shows as open, of all threads.
int shown_as_open(const RawTrace& trace) {
  int open = 0;
  for (const auto& thread : trace.threads) {
    open += (thread.open[0].enter_ticks != 0) + (thread.open[1].enter_ticks != 0);
  }
  return open;
}

ROLE(exception_and_end) {
  const Vendor vendor = open_vendor();
  vendor.set_inside([] { throw std::runtime_error("out"); });
  try {
    vendor.synchronize();
  } catch (const std::runtime_error&) {
    _exit(0);
  }
  return 1;
}

TEST(Interrupted, ByAnExceptionIsNotShownAsOpen) {
  Outcome outcome;
  EXPECT_EQ(shown_as_open(trace_of("exception_and_end", outcome)), 0);
}

// Inside NCCL's call one of CUDA's is open, too, and the thread goes on only after both.
ROLE(exception_through_two) {
  static const Vendor vendor = open_vendor();
  static bool within = false;
  vendor.set_inside([] {
    if (within) {
      throw std::runtime_error("out");
    }
    within = true;
    vendor.synchronize();
  });
  int caught = 0;
  for (int i = 0; i < 10; ++i) {
    within = false;
    try {
      vendor.simulate(&caught);
    } catch (const std::runtime_error&) {
      ++caught;
    }
  }
  _exit(caught == 10 ? 0 : 1);
}

TEST(Interrupted, ByAnExceptionThroughTwoLayers) {
  Outcome outcome;
  const RawTrace trace = trace_of("exception_through_two", outcome);
  EXPECT_EQ(shown_as_open(trace), 0);
  EXPECT_EQ(trace.entered("ncclGroupSimulateEnd"), 10u);
  EXPECT_EQ(trace.entered("cuCtxSynchronize"), 10u);
}

ROLE(cancel_and_end) {
  role_cancel(arguments);
  _exit(0);
}

TEST(Interrupted, ByCancellationIsNotShownAsOpen) {
  Outcome outcome;
  EXPECT_EQ(shown_as_open(trace_of("cancel_and_end", outcome)), 0);
}

// Where longjmp left a call of NCCL's, a call of CUDA's tells.
ROLE(jump_out_of_nccl) {
  static const Vendor vendor = open_vendor();
  vendor.set_inside([] { longjmp(g_back, 1); });
  if (!setjmp(g_back)) {
    call_from_deeper(vendor, 3);
    vendor.simulate(&g_back);
  }
  vendor.release(7);
  _exit(0);
}

TEST(Interrupted, ByLongjmpIsNotShownAsOpenFromTheNextCallOn) {
  Outcome outcome;
  EXPECT_EQ(shown_as_open(trace_of("jump_out_of_nccl", outcome)), 0);
}

// A call that has no cancellation point has none under the tracer either, be its stack new.
// A coroutine's call is left for good, and its stack given back.  It lay above the thread's own
// one, as memory that is mapped may.
ucontext_t g_thread;
ucontext_t g_coroutine;

void call_in_coroutine() {
  if (!setjmp(g_back)) {
    open_vendor().synchronize();
  }
}

void* leave_a_coroutine(void* stack_of_coroutine) {
  constexpr size_t kBytes = 64 << 10;
  getcontext(&g_coroutine);
  g_coroutine.uc_stack.ss_sp = stack_of_coroutine;
  g_coroutine.uc_stack.ss_size = kBytes;
  g_coroutine.uc_link = &g_thread;
  makecontext(&g_coroutine, call_in_coroutine, 0);
  swapcontext(&g_thread, &g_coroutine);
  munmap(stack_of_coroutine, kBytes);
  const Vendor vendor = open_vendor();
  return reinterpret_cast<void*>(static_cast<intptr_t>(vendor.release(7) + vendor.release(7)));
}

ROLE(coroutine_that_is_gone) {
  constexpr size_t kBytes = 1 << 20;
  open_vendor().set_inside([] { longjmp(g_back, 1); });
  void* const memory =
      mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, memory, kBytes);
  pthread_t thread;
  pthread_create(&thread, &attributes, leave_a_coroutine, static_cast<char*>(memory) + kBytes);
  void* result = nullptr;
  pthread_join(thread, &result);
  return result == nullptr ? 0 : 1;
}

TEST(Interrupted, OnTheStackOfACoroutineThatIsGone) {
  Outcome outcome;
  const RawTrace trace = trace_of("coroutine_that_is_gone", outcome);
  EXPECT_EQ(trace.entered("cuCtxSynchronize"), 1u);
  EXPECT_EQ(trace.left("cuMemFree_v2"), 2u);
}

ROLE(cancelled_before) {
  static const Vendor vendor = open_vendor();
  static std::atomic<int> calls = 0;
  vendor.release(7);
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        pthread_cancel(pthread_self());
        for (int depth = 0; depth < 5; ++depth) {
          call_from_deeper(vendor, depth);
          ++calls;
        }
        pthread_testcancel();
        return nullptr;
      },
      nullptr);
  void* result = nullptr;
  pthread_join(thread, &result);
  return calls == 5 && result == PTHREAD_CANCELED ? 0 : 1;
}

TEST(Interrupted, ByCancellationOnlyWhereItIsWithoutTheTracer) {
  Outcome outcome;
  const RawTrace trace = trace_of("cancelled_before", outcome);
  EXPECT_EQ(trace.left("cuMemFree_v2"), 6u);
}

// At any instruction: whatever the thread was at, others go on, and the loader's lock is free.
ROLE(cancel_at_any_time) {
  static const Vendor vendor = open_vendor();
  constexpr int kThreads = 300;
  vendor.release(7);
  int cancelled = 0;
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
          for (int depth = 0;; depth = (depth + 1) % 40) {
            call_from_deeper(vendor, depth);
          }
        },
        nullptr);
    usleep(static_cast<useconds_t>(i * 7 % 600));
    pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    cancelled += result == PTHREAD_CANCELED;
    dlclose(dlopen(PRELOAD_FIXTURES "/libchained.so", RTLD_NOW | RTLD_LOCAL));
    vendor.simulate(nullptr);
  }
  return cancelled == kThreads ? 0 : 1;
}

TEST(Interrupted, ByCancellationAtAnyTime) {
  Outcome outcome;
  const RawTrace trace = trace_of("cancel_at_any_time", outcome);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.left("ncclGroupSimulateEnd"), 300u);
  EXPECT_EQ(shown_as_open(trace), 0);
}

// A handler that leads out for good, as those of interactive programs do.
volatile sig_atomic_t g_may_jump = 0;
volatile sig_atomic_t g_jumps = 0;
sigjmp_buf g_loop;

ROLE(jump_at_any_time) {
  static const Vendor vendor = open_vendor();
  constexpr int kJumps = 3000;
  vendor.release(7);
  signal(SIGALRM, [](int) {
    if (g_may_jump) {
      g_may_jump = 0;
      g_jumps = g_jumps + 1;
      siglongjmp(g_loop, 1);
    }
  });
  constexpr itimerval kOften = {{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &kOften, nullptr);
  sigsetjmp(g_loop, 1);
  while (g_jumps < kJumps) {
    g_may_jump = 1;
    for (int depth = 0; g_jumps < kJumps; depth = (depth + 1) % 40) {
      call_from_deeper(vendor, depth);
    }
  }
  constexpr itimerval kNever = {};
  setitimer(ITIMER_REAL, &kNever, nullptr);
  for (int i = 0; i < 1000; ++i) {
    vendor.simulate(nullptr);
  }
  return 0;
}

TEST(Interrupted, ByHandlersThatJump) {
  Outcome outcome;
  const RawTrace trace = trace_of("jump_at_any_time", outcome);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.left("ncclGroupSimulateEnd"), 1000u);
  EXPECT_FALSE(trace.stats.contains("nested-in-signal"));
  EXPECT_EQ(shown_as_open(trace), 0);
}

}  // namespace
