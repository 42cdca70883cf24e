// Stacks taken by several threads while libraries come and go below others.
// test: timeout=300
// uses: interpose/record/map_memory.cc
// uses: interpose/stacks/modules.cc interpose/stacks/modules_elf.cc interpose/stacks/loader_walk.cc
// uses: interpose/stacks/native_frames.cc interpose/base/undisturbed.cc
// uses: interpose/stacks/unwind_cfi.cc
// uses: interpose/stacks/unwind_row.cc interpose/stacks/unwind_expression.cc
// uses: interpose/stacks/unwind_stack.cc
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "interpose/stacks/modules.h"
#include "tests/unit/unwind_compare.h"

namespace {

using CallBack = void (*)(int (*callback)(), int depth);

std::string beside_this_program(const char* name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string program(path, length < 0 ? 0 : static_cast<size_t>(length));
  return program.substr(0, program.rfind('/') + 1) + name;
}

std::atomic<bool> g_done;
volatile int g_sink;

struct Taken {
  uint64_t frames[64];
  size_t count;
};
thread_local Taken t_taken;

__attribute__((noinline)) int take() {
  t_taken.count = traintrace::native_frames(traintrace::walk_from_here(), t_taken.frames, 64);
  return g_sink;
}

__attribute__((noinline)) int take_below(int depth) {
  return (depth == 0 ? take() : take_below(depth - 1)) + g_sink;
}

// Frames of libraries that stay: always the same stack.
void take_again_and_again() {
  take_below(20);
  const Taken first = t_taken;
  size_t different = 0;
  while (!g_done) {
    take_below(20);
    different += t_taken.count != first.count;
    for (size_t i = 0; i + 1 < first.count; ++i) {  // the last but one: another call of this loop
      different += t_taken.frames[i] != first.frames[i] && i < 20;
    }
  }
  EXPECT_EQ(different, 0U);
}

TEST(UnwindThreads, WhileLibrariesComeAndGo) {
  g_done = false;
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back(take_again_and_again);
  }
  size_t through = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    const char* name = round % 2 == 0 ? "unwind_plugin1.so" : "unwind_plugin2.so";
    void* library = dlopen(beside_this_program(name).c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    reinterpret_cast<CallBack>(dlsym(library, "call_back"))(take, 20);
    // Without a word from anybody: what is unknown or wrong is noticed on the way.
    through += t_taken.count > 10;
    dlclose(library);
  }
  g_done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  // A stack may be cut while another thread reads the loader's list, but that is rare.
  EXPECT_GT(through, kRounds * 8 / 10);
}

std::atomic<bool> g_hold;
std::atomic<bool> g_held;

// Whoever brings the table up to date waits here, with what it read of the loader's list.
void hold_up(const traintrace::Module&, bool) noexcept {
  while (g_hold) {
    g_held = true;
    usleep(100);
  }
}

void* load(const char* name) {
  void* library = dlopen(beside_this_program(name).c_str(), RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}

// How many frames are seen below a library, which goes after that.
size_t frames_below(void* library) {
  reinterpret_cast<CallBack>(dlsym(library, "call_back"))(take, 20);
  dlclose(library);
  return t_taken.count;
}

// A stack is cut while another thread is at the table, with what it read before; later ones are
// not, though nothing unknown is met any more.
TEST(UnwindThreads, CutOnlyWhileAnotherThreadIsAtTheTable) {
  traintrace::listen_to_modules(hold_up);
  traintrace::refresh_modules();
  std::thread other;
  for (int round = 0; round < 10; ++round) {
    // At the same address, with frames of another size.
    void* library = load(round % 2 == 0 ? "unwind_plugin1.so" : "unwind_plugin2.so");
    if (round == 0) {
      g_hold = true;
      other = std::thread([] { traintrace::refresh_modules(); });
      while (!g_held) {
        usleep(100);
      }
    }
    const size_t frames = frames_below(library);
    if (round == 1) {
      g_hold = false;
      other.join();
    } else {
      EXPECT_GT(frames, 10) << round;
    }
  }
  traintrace::listen_to_modules(nullptr);
}

}  // namespace
