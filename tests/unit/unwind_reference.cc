// The walker's stacks, frame by frame, beside those of glibc and of libunwind.
// uses: interpose/record/map_memory.cc
// uses: interpose/stacks/modules.cc interpose/stacks/modules_elf.cc interpose/stacks/loader_walk.cc
// uses: interpose/stacks/native_frames.cc interpose/base/undisturbed.cc
// uses: interpose/stacks/unwind_cfi.cc
// uses: interpose/stacks/unwind_row.cc interpose/stacks/unwind_expression.cc
// uses: interpose/stacks/unwind_stack.cc
#include <alloca.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <thread>

#include "interpose/stacks/modules.h"
#include "tests/unit/unwind_compare.h"

#if defined(__clang__)
#define WITHOUT_FRAME_POINTER __attribute__((noinline))
#define WITH_FRAME_POINTER __attribute__((noinline))
#else
#define WITHOUT_FRAME_POINTER __attribute__((noinline, optimize("omit-frame-pointer")))
#define WITH_FRAME_POINTER __attribute__((noinline, optimize("no-omit-frame-pointer")))
#endif

namespace {

using unwind_test::Stacks;

void expect_same(const Stacks& stacks, size_t at_least) {
  EXPECT_GE(stacks.ours.count, at_least);
  EXPECT_EQ(unwind_test::difference(stacks), "");
}

// What a test calls at the end of the chain that it builds.
Stacks g_stacks;
volatile int g_sink;

__attribute__((noinline)) int take() {
  g_stacks.ours.count = 0;
  TT_TAKE_STACKS(g_stacks);
  return g_sink;
}

// Keeps a call from being the last thing that a function does, and a buffer from going away.
void keep(void* memory) {
  asm volatile("" : : "r"(memory) : "memory");
}

WITHOUT_FRAME_POINTER int recurse_without(int depth) {
  const int below = depth == 0 ? take() : recurse_without(depth - 1);
  return below + g_sink;
}

WITH_FRAME_POINTER int recurse_with(int depth) {
  const int below = depth == 0 ? take() : recurse_with(depth - 1);
  return below + g_sink;
}

WITHOUT_FRAME_POINTER int alternate_without(int depth);
WITH_FRAME_POINTER int alternate_with(int depth) {
  const int below = depth == 0 ? take() : alternate_without(depth - 1);
  return below + g_sink;
}
WITHOUT_FRAME_POINTER int alternate_without(int depth) {
  const int below = depth == 0 ? take() : alternate_with(depth - 1);
  return below + g_sink;
}

TEST(UnwindReference, LibunwindIsThere) {
  if (unwind_test::libunwind_backtrace() == nullptr) {
    GTEST_SKIP() << "libunwind8 is not installed, or not used here: compared with glibc alone";
  }
}

TEST(UnwindReference, WithoutFramePointers) {
  recurse_without(100);
  expect_same(g_stacks, 101);
}

TEST(UnwindReference, WithFramePointers) {
  recurse_with(100);
  expect_same(g_stacks, 101);
}

TEST(UnwindReference, Mixed) {
  alternate_with(100);
  expect_same(g_stacks, 101);
}

TEST(UnwindReference, DeepRecursion) {
  alternate_with(3000);
  expect_same(g_stacks, 3001);
}

WITHOUT_FRAME_POINTER int large_frame(int depth) {
  char buffer[300000];
  keep(buffer);
  const int below = depth == 0 ? take() : large_frame(depth - 1);
  keep(buffer);
  return below + g_sink;
}

TEST(UnwindReference, LargeFrames) {
  large_frame(5);
  expect_same(g_stacks, 6);
}

WITHOUT_FRAME_POINTER int dynamic_frame(size_t bytes) {
  void* buffer = alloca(bytes);
  keep(buffer);
  const int below = bytes < 100 ? take() : dynamic_frame(bytes / 2);
  keep(buffer);
  return below + g_sink;
}

TEST(UnwindReference, Alloca) {
  dynamic_frame(100000);
  expect_same(g_stacks, 10);
}

// With arguments on the stack, an aligned frame and alloca, gcc finds the arguments and the CFA
// through a saved pointer: DW_CFA_def_cfa_expression.
WITHOUT_FRAME_POINTER int aligned_frame(int a, int b, int c, int d, int e, int f, int g,
                                        int depth) {
  alignas(128) char buffer[256];
  void* more = alloca(static_cast<size_t>(depth) * 16 + 16);
  keep(buffer);
  keep(more);
  const int below = depth == 0 ? take() : aligned_frame(b, c, d, e, f, g, a, depth - 1);
  keep(buffer);
  return below + a + g_sink;
}

TEST(UnwindReference, AlignedFrames) {
  aligned_frame(1, 2, 3, 4, 5, 6, 7, 20);
  expect_same(g_stacks, 21);
}

int compare_numbers(const void* a, const void* b) {
  static bool taken = false;
  if (!taken) {
    taken = true;
    take();
  }
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

TEST(UnwindReference, ThroughQsort) {
  int numbers[] = {5, 4, 3, 2, 1, 9, 8, 7};
  g_stacks.ours.count = 0;
  qsort(numbers, 8, sizeof(int), compare_numbers);
  expect_same(g_stacks, 3);
}

TEST(UnwindReference, ThroughBsearch) {
  const int numbers[] = {1, 2, 3, 4, 5};
  const int wanted = 4;
  const void* found = bsearch(&wanted, numbers, 5, sizeof(int), [](const void* a, const void* b) {
    take();
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  EXPECT_EQ(found, &numbers[3]);
  expect_same(g_stacks, 3);
}

WITH_FRAME_POINTER void on_another_thread(void (*body)()) {
  std::thread(body).join();
}

TEST(UnwindReference, Threads) {
  on_another_thread([] { alternate_with(50); });
  expect_same(g_stacks, 51);
}

// The smallest stack there is, so that its upper end is near.
TEST(UnwindReference, ThreadWithSmallStack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  const auto body = [](void*) -> void* {
    alternate_with(20);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, nullptr), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  expect_same(g_stacks, 21);
}

struct TakesWhenItGoes {
  ~TakesWhenItGoes() { take(); }
};

WITHOUT_FRAME_POINTER int throw_at(int depth) {
  if (depth == 0) {
    throw std::runtime_error("unwind");
  }
  return throw_at(depth - 1) + g_sink;
}

TEST(UnwindReference, InCatchBlock) {
  g_stacks.ours.count = 0;
  try {
    throw_at(10);
  } catch (const std::runtime_error&) {
    recurse_without(3);
  }
  expect_same(g_stacks, 4);
}

TEST(UnwindReference, InLandingPad) {
  g_stacks.ours.count = 0;
  try {
    const TakesWhenItGoes guard;
    throw_at(10);
  } catch (const std::runtime_error&) {
  }
  expect_same(g_stacks, 2);
}

// The call is the last instruction of its function: its return address belongs to another one.
[[noreturn]] __attribute__((noinline)) void take_and_throw() {
  take();
  throw 1;
}
WITHOUT_FRAME_POINTER void end_with_a_call(volatile char* buffer) {
  volatile char mine[1000];
  mine[0] = buffer[0];
  keep(const_cast<char*>(mine));
  take_and_throw();
}

TEST(UnwindReference, AfterTheLastInstruction) {
  g_stacks.ours.count = 0;
  volatile char buffer[8] = {};
  try {
    end_with_a_call(buffer);
  } catch (int) {
  }
  expect_same(g_stacks, 3);
}

TEST(UnwindReference, ThroughStdFunctionAndLambdas) {
  std::function<int(int)> call = [&](int depth) { return depth == 0 ? take() : call(depth - 1); };
  call(10);
  expect_same(g_stacks, 20);
}

ucontext_t g_main_context;
ucontext_t g_coroutine_context;

void coroutine() {
  alternate_with(10);
  swapcontext(&g_coroutine_context, &g_main_context);
}

// On memory that is not the thread's stack.
TEST(UnwindReference, Coroutine) {
  constexpr size_t kBytes = 256 << 10;
  void* stack = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(stack, MAP_FAILED);
  getcontext(&g_coroutine_context);
  g_coroutine_context.uc_stack = {stack, 0, kBytes};
  g_coroutine_context.uc_link = &g_main_context;
  makecontext(&g_coroutine_context, coroutine, 0);
  swapcontext(&g_main_context, &g_coroutine_context);
  munmap(stack, kBytes);
#if defined(__aarch64__)  // where it goes round in the function that began the coroutine
  g_stacks.libunwind.count = std::min(g_stacks.libunwind.count, g_stacks.ours.count);
#endif
  expect_same(g_stacks, 12);
}

// A function made at run time, which no unwind table knows.
class MadeCode {
 public:
  using Function = int (*)(int (*callback)());
  explicit MadeCode(std::initializer_list<uint8_t> bytes)
      : page_(mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0)) {
    auto* const begin = static_cast<char*>(page_);
    std::copy(bytes.begin(), bytes.end(), begin);
    __builtin___clear_cache(begin, begin + bytes.size());
  }
  ~MadeCode() { munmap(page_, 4096); }
  MadeCode(const MadeCode&) = delete;
  MadeCode& operator=(const MadeCode&) = delete;

  Function function() const { return reinterpret_cast<Function>(page_); }
  size_t frames_in(const unwind_test::Frames& frames) const {
    const auto begin = reinterpret_cast<uint64_t>(page_);
    return static_cast<size_t>(
        std::count_if(frames.addresses, frames.addresses + frames.count,
                      [&](uint64_t address) { return address - begin < 4096; }));
  }

 private:
  void* page_;
};

WITH_FRAME_POINTER int call_made_code(const MadeCode& code) {
  return code.function()(take) + g_sink;
}

#if defined(__aarch64__)
// stp x29, x30, [sp, -64]!; mov x29, sp; blr x0; ldp x29, x30, [sp], 64; ret
constexpr std::initializer_list<uint8_t> kKeepsFramePointer = {
    0xFD, 0x7B, 0xBC, 0xA9, 0xFD, 0x03, 0,    0x91, 0,    0,
    0x3F, 0xD6, 0xFD, 0x7B, 0xC4, 0xA8, 0xC0, 0x03, 0x5F, 0xD6};
// The same with 16 bytes and mov x29, 1.
constexpr std::initializer_list<uint8_t> kUsesFramePointer = {
    0xFD, 0x7B, 0xBF, 0xA9, 0x3D, 0,    0x80, 0xD2, 0,    0,
    0x3F, 0xD6, 0xFD, 0x7B, 0xC1, 0xA8, 0xC0, 0x03, 0x5F, 0xD6};
#else
// push rbp; mov rbp, rsp; call rdi; pop rbp; ret
constexpr std::initializer_list<uint8_t> kKeepsFramePointer = {0x55, 0x48, 0x89, 0xE5,
                                                               0xFF, 0xD7, 0x5D, 0xC3};
// push rbx; mov ebx, 1; push rbp; mov rbp, rbx; sub rsp, 8; call rdi; add rsp, 8; pop rbp; pop rbx;
// ret
constexpr std::initializer_list<uint8_t> kUsesFramePointer = {
    0x53, 0xBB, 1,    0,    0,    0,    0x55, 0x48, 0x89, 0xDD, 0x48, 0x83,
    0xEC, 8,    0xFF, 0xD7, 0x48, 0x83, 0xC4, 8,    0x5D, 0x5B, 0xC3};
#endif

// Frame pointers lead on where others give up.
TEST(UnwindReference, CodeMadeAtRunTime) {
  recurse_with(0);
  const size_t to_the_start = g_stacks.glibc.count;
  const MadeCode code(kKeepsFramePointer);
  call_made_code(code);
  EXPECT_EQ(code.frames_in(g_stacks.ours), 1U);
  EXPECT_EQ(g_stacks.ours.count, to_the_start + 1);
  EXPECT_TRUE(g_stacks.ours == g_stacks.again);
}

// Where it is no address.
TEST(UnwindReference, CodeThatUsesTheFramePointerOtherwise) {
  const MadeCode code(kUsesFramePointer);
  call_made_code(code);
  EXPECT_EQ(code.frames_in(g_stacks.ours), 1U);
  EXPECT_EQ(g_stacks.ours.count, 1U);
}

using CallBack = void (*)(int (*callback)(), int depth);

std::string beside_this_program(const char* name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string program(path, length < 0 ? 0 : static_cast<size_t>(length));
  return program.substr(0, program.rfind('/') + 1) + name;
}

TEST(UnwindReference, ThroughLoadedLibrary) {
  void* library = dlopen(beside_this_program("unwind_plugin1.so").c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  reinterpret_cast<CallBack>(dlsym(library, "call_back"))(take, 20);
  expect_same(g_stacks, 20);
  dlclose(library);
}

// The second variant usually comes to lie where the first one was, with frames of another size.
TEST(UnwindReference, LibrariesThatTakeTurns) {
  for (int round = 0; round < 40; ++round) {
    const char* name = round % 2 == 0 ? "unwind_plugin1.so" : "unwind_plugin2.so";
    void* library = dlopen(beside_this_program(name).c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    traintrace::refresh_modules();
    reinterpret_cast<CallBack>(dlsym(library, "call_back"))(take, 20);
    g_stacks.libunwind.count = 0;  // does not notice and uses what it knows of the other one
    expect_same(g_stacks, 20);
    dlclose(library);
  }
}

}  // namespace
