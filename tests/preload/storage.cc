// test: timeout=300 link=none
// The first recorded call of a process sets its storage up, wherever it comes from.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;
using Clock = std::chrono::steady_clock;

constexpr unsigned kLaterCalls = 200;
constexpr auto kTooLong = std::chrono::seconds(10);  // for calls that wait 100 ms each: twice that
constexpr int kRounds = 25;

using Release = int (*)(unsigned long);

Release open_vendor() {
  void* const library = dlopen(PRELOAD_FIXTURES "/libfake_vendor.so", RTLD_NOW);
  return reinterpret_cast<Release>(dlsym(library, "cuMemFree_v2"));
}

Release g_release = nullptr;

int run_in_small_stack(void* (*body)(void*)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, body, nullptr);
  return error ? error : pthread_join(thread, nullptr);
}

ROLE(small_stack) {
  g_release = open_vendor();
  const auto call = [](void*) -> void* {
    g_release(1);
    return nullptr;
  };
  for (int i = 0; i < 3; ++i) {
    if (run_in_small_stack(call) != 0) {
      return 1;
    }
  }
  return 0;
}

RawTrace trace_of(const preload::Program& role, Outcome& outcome) {
  const Folder folder;
  preload::Program program = role;
  program.environment["TRAINTRACE_DIR"] = folder.path();
  outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  EXPECT_EQ(folder.traces().size(), 1u);
  return folder.traces().size() == 1 ? preload::read_raw(folder.traces().front()) : RawTrace();
}

TEST(FirstCall, OnASmallStack) {
  Outcome outcome;
  const RawTrace trace = trace_of(preload::self("small_stack"), outcome);
  EXPECT_EQ(trace.entered("cuMemFree_v2"), 3u);
  EXPECT_EQ(trace.left("cuMemFree_v2"), 3u);
}

// Each from a thread of its own, so that each might wait; 2: that took too long.
int call_from_many() {
  const auto begun = Clock::now();
  for (int i = 0; i < static_cast<int>(kLaterCalls); ++i) {
    std::thread([] { g_release(2); }).join();
  }
  return Clock::now() - begun < kTooLong ? 0 : 2;
}

std::atomic<bool> g_calling = false;

void* call_for_ever(void* asynchronous) {
  int ignored = 0;
  if (asynchronous) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &ignored);
  }
  g_calling = true;
  g_release(1);
  for (;;) {
    pause();
  }
}

ROLE(cancelled) {
  g_release = open_vendor();
  void* const asynchronous = arguments.at(0) == "asynchronous" ? &g_release : nullptr;
  pthread_t thread;
  pthread_create(&thread, nullptr, call_for_ever, asynchronous);
  while (!g_calling) {
  }
  usleep(static_cast<useconds_t>(atoi(arguments.at(1).c_str())));
  pthread_cancel(thread);
  pthread_join(thread, nullptr);
  return call_from_many();
}

sigjmp_buf g_back;

ROLE(longjmp) {
  g_release = open_vendor();
  signal(SIGALRM, [](int) { siglongjmp(g_back, 1); });
  const itimerval once = {{0, 0}, {0, atoi(arguments.at(0).c_str())}};
  if (sigsetjmp(g_back, 1) == 0) {
    setitimer(ITIMER_REAL, &once, nullptr);
    g_release(1);
    for (;;) {
      pause();
    }
  }
  g_release(3);  // of the thread that left
  return call_from_many();
}

// The other threads' calls are all recorded.  Those of the thread that left, where it came so far:
// it waits for the storage once in its life.
void expect_later_calls(const preload::Program& role, unsigned own_calls) {
  Outcome outcome;
  const RawTrace trace = trace_of(role, outcome);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_GE(trace.left("cuMemFree_v2"), kLaterCalls);
  EXPECT_LE(trace.left("cuMemFree_v2"), kLaterCalls + own_calls);
}

// From the first instructions of the call to long after it.
int delay_us(int round) {
  return 1 << (round % 14);
}

TEST(FirstCall, InAThreadThatIsCancelled) {
  for (const char* const type : {"deferred", "asynchronous"}) {
    for (int round = 0; round < kRounds; ++round) {
      SCOPED_TRACE(type + std::string(" after ") + std::to_string(delay_us(round)) + " us");
      expect_later_calls(preload::self("cancelled", {type, std::to_string(delay_us(round))}), 1);
    }
  }
}

TEST(FirstCall, LeftByLongjmpFromASignalHandler) {
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(std::to_string(delay_us(round)) + " us");
    expect_later_calls(preload::self("longjmp", {std::to_string(delay_us(round))}), 2);
  }
}

}  // namespace
