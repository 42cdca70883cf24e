// Stacks taken inside a signal handler, at whatever instruction was interrupted.
// test: timeout=300
// uses: interpose/record/map_memory.cc
// uses: interpose/stacks/modules.cc interpose/stacks/modules_elf.cc interpose/stacks/loader_walk.cc
// uses: interpose/stacks/native_frames.cc interpose/base/undisturbed.cc
// uses: interpose/stacks/unwind_cfi.cc
// uses: interpose/stacks/unwind_row.cc interpose/stacks/unwind_expression.cc
// uses: interpose/stacks/unwind_stack.cc
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include <algorithm>
#include <stdexcept>

#include "tests/unit/unwind_compare.h"

namespace {

using unwind_test::Stacks;

Stacks g_stacks;
volatile int g_sink;

void take_in_handler(int) {
  TT_TAKE_STACKS(g_stacks);
}

// Once outside of a handler: the others load libraries.
const bool g_loaded = (take_in_handler(0), true);

void set_handler(int signal_number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal_number, &action, nullptr);
}

__attribute__((noinline)) int raise_below(int depth) {
  return (depth == 0 ? raise(SIGUSR1) : raise_below(depth - 1)) + g_sink;
}

TEST(UnwindSignals, OnTheSameStack) {
  set_handler(SIGUSR1, take_in_handler, 0);
  raise_below(10);
  EXPECT_EQ(unwind_test::difference(g_stacks), "");
  EXPECT_GE(g_stacks.ours.count, 13U);
}

TEST(UnwindSignals, OnAnotherStack) {
  const stack_t own{malloc(1 << 20), 0, 1 << 20};
  ASSERT_EQ(sigaltstack(&own, nullptr), 0);
  set_handler(SIGUSR1, take_in_handler, SA_ONSTACK);
  raise_below(10);
  EXPECT_EQ(unwind_test::difference(g_stacks), "");
  EXPECT_GE(g_stacks.ours.count, 13U);
  const stack_t none{nullptr, SS_DISABLE, 0};
  sigaltstack(&none, nullptr);
  free(own.ss_sp);
}

#if defined(__x86_64__)
// With the trap flag set, the processor stops after every instruction: prologues, epilogues, stubs
// of the procedure linkage table, the loader's resolver, hand-written assembly.
struct Stepped {
  size_t stops = 0;
  size_t same = 0;
  size_t shorter = 0;  // the rest of the stack is missing
  size_t wrong = 0;
  Stacks first_wrong;
};
Stepped g_stepped;

void compare_at_step(int) {
  constexpr size_t kDepth = 64;
  static Stacks stacks;
  static void* addresses[kDepth + 3];
  stacks.ours.count =
      traintrace::native_frames(traintrace::walk_from_here(), stacks.ours.addresses, kDepth);
  unwind_test::keep_callers(addresses, backtrace(addresses, kDepth + 3), stacks.ours, stacks.glibc);
  stacks.glibc.count = std::min(stacks.glibc.count, kDepth);
  const size_t common = std::min(stacks.ours.count, stacks.glibc.count);
  const bool is_start =
      std::equal(stacks.ours.addresses, stacks.ours.addresses + common, stacks.glibc.addresses);
  ++g_stepped.stops;
  if (stacks.ours == stacks.glibc) {
    ++g_stepped.same;
  } else if (is_start && common == stacks.ours.count) {
    ++g_stepped.shorter;
  } else if (g_stepped.wrong++ == 0) {
    g_stepped.first_wrong = stacks;
    g_stepped.first_wrong.again = stacks.ours;
  }
}

constexpr uint64_t kTrapFlag = 0x100;

__attribute__((always_inline)) inline void step_from_here() {
  asm volatile("pushfq; orq %0, (%%rsp); popfq" : : "i"(kTrapFlag) : "cc", "memory");
}
__attribute__((always_inline)) inline void step_no_more() {
  asm volatile("pushfq; andq %0, (%%rsp); popfq" : : "i"(~kTrapFlag) : "cc", "memory");
}

__attribute__((noinline)) void varied_work() {
  int numbers[24];
  for (int i = 0; i < 24; ++i) {
    numbers[i] = (i * 7919) % 24;
  }
  qsort(numbers, 24, sizeof(int), [](const void* a, const void* b) {
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  char text[100];
  snprintf(text, sizeof text, "%d %s %g", numbers[3], "text", 1.5);
  char* copy = strdup(text);
  g_sink = static_cast<int>(strlen(copy)) + atoi("42");
  free(copy);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::string joined(text);
  joined += std::to_string(now.tv_sec);
  g_sink = static_cast<int>(joined.size());
}

__attribute__((noinline)) void throwing_work() {
  try {
    throw std::runtime_error("step");
  } catch (const std::exception& e) {
    g_sink = static_cast<int>(strlen(e.what()));
  }
}

void step_through(void (*work)()) {
  // Bound now: the loader's resolver keeps its caller's stack in rbx, which is not followed.
  work();
  g_stepped.stops = g_stepped.same = g_stepped.shorter = g_stepped.wrong = 0;
  set_handler(SIGTRAP, compare_at_step, 0);
  step_from_here();
  work();
  step_no_more();
  set_handler(SIGTRAP, SIG_DFL, 0);
  printf("%zu instructions: %zu the same, %zu shorter, %zu wrong\n", g_stepped.stops,
         g_stepped.same, g_stepped.shorter, g_stepped.wrong);
}

// TSan's runtime would be stopped inside its own locks, which the handler takes again.
#if defined(__SANITIZE_THREAD__)
#define SKIP_WHERE_STEPS_MEET_LOCKS() GTEST_SKIP() << "not under TSan"
#else
#define SKIP_WHERE_STEPS_MEET_LOCKS() static_cast<void>(0)
#endif

TEST(UnwindSignals, EveryInstruction) {
  SKIP_WHERE_STEPS_MEET_LOCKS();
  step_through(varied_work);
  EXPECT_GT(g_stepped.stops, 2000U);
  EXPECT_EQ(g_stepped.wrong, 0U) << unwind_test::difference(g_stepped.first_wrong);
  EXPECT_EQ(g_stepped.shorter, 0U);
}

TEST(UnwindSignals, EveryInstructionOfAnException) {
  SKIP_WHERE_STEPS_MEET_LOCKS();
  step_through(throwing_work);
  EXPECT_GT(g_stepped.stops, 1000U);
  EXPECT_EQ(g_stepped.wrong, 0U) << unwind_test::difference(g_stepped.first_wrong);
  // Two instructions of libgcc's jump to a landing pad find their caller through rcx.
  EXPECT_LT(g_stepped.shorter, 10U);
}
#endif

}  // namespace
