// test: link=none
// Calls that do not come back as they should: longjmp, exceptions, cancelled threads, signals in
// the middle of everything.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
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
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
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
  while (g_handled < 1000 && calls < 1'000'000) {
    g_vendor.release(static_cast<unsigned long>(++calls));
  }
  constexpr itimerval kNever = {};
  setitimer(ITIMER_REAL, &kNever, nullptr);
  std::printf("%ld %d\n", calls, static_cast<int>(g_handled));
  return 0;
}

TEST(Interrupted, BySignalHandlersThatCall) {
  Outcome outcome;
  const RawTrace trace = trace_of("signals", outcome);
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

}  // namespace
