// Calls on other stacks than a thread's own.
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <vector>

#include "cases.h"

namespace unharmed {
namespace {

constexpr size_t kPage = 4096;

std::atomic<int> g_handled = 0;

// For a signal's frame, whose size depends on the processor, and so much for what its handler does.
// What is below faults.
[[gnu::noinline]] void handle_with(size_t bytes) {
  const size_t frame = getauxval(AT_MINSIGSTKSZ);
  const size_t size = (frame != 0 ? frame : static_cast<size_t>(MINSIGSTKSZ)) + bytes;
  const size_t above = (size + kPage - 1) / kPage * kPage;
  char* const memory = static_cast<char*>(
      mmap(nullptr, kPage + above, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(memory, kPage, PROT_NONE);
  stack_t stack = {};
  stack.ss_sp = memory + kPage;
  stack.ss_size = size;
  sigaltstack(&stack, nullptr);
  raise(SIGUSR1);
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
  munmap(memory, kPage + above);
}

// From one place, so that the stack is known from the second time on.
[[gnu::noinline]] void handle_with_each(const std::vector<size_t>& all) {
  for (const size_t bytes : all) {
    handle_with(bytes);
  }
}

[[gnu::noinline]] void handle_elsewhere(size_t bytes) {
  handle_with(bytes);
  ++g_handled;
}

void on_other_stack(int signal_number, void (*handle)(int, siginfo_t*, void*)) {
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(signal_number, &action, nullptr);
}

}  // namespace

// A handler that goes on after a fault, as those of garbage collectors do.
int handles_faults() {
  static char* page =
      static_cast<char*>(mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  static std::atomic<int> faults = 0;
  on_other_stack(SIGSEGV, [](int, siginfo_t*, void*) {
    ++faults;
    call();
    mprotect(page, kPage, PROT_READ | PROT_WRITE);
  });
  static char stack[65536];
  stack_t other = {};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  for (int i = 0; i < 100; ++i) {
    mprotect(page, kPage, PROT_NONE);
    call();
    page[0] = 1;
  }
  printf("%d\n", faults.load());
  return 3;
}

int handles_on_small_stacks() {
  constexpr size_t kPlenty = size_t{64} << 10;
  constexpr size_t kForKnownStack = size_t{3} << 9;
  constexpr size_t kForNewStack = size_t{9} << 9;
  g_copies = false;  // the stacks are as small as one call needs
  call();
  on_other_stack(SIGUSR1, [](int, siginfo_t*, void*) {
    ++g_handled;
    call();
  });
  handle_with_each({kPlenty, kForKnownStack});
  handle_elsewhere(kForNewStack);
  printf("%d\n", g_handled.load());
  return 3;
}

}  // namespace unharmed
