// test: debug=kept
// uses: analyzer
// Which frame of a native stack is the user's, where headers of libraries are among them.
#include <execinfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/library_header.h"
#include "analyzer/model/process/look_up_code.h"
#include "analyzer/model/process/threads_now.h"
#include "tests/unit/this_program.h"

namespace traintrace {
namespace {

constexpr const char* kMutexHeader = "/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h";
constexpr const char* kProgram = "/home/me/job/train";

TEST(LibraryHeader, OfTheSystemTheCompilerAndCuda) {
  for (const char* file :
       {kMutexHeader, "/usr/include/c++/12/condition_variable", "/usr/include/nccl.h",
        "/opt/gcc/include/c++/13/thread", "/env/sysroot/usr/include/time.h",
        "/usr/local/cuda-13.0/include/cub/cub.cuh", "/usr/local/cuda/include/thrust/sort.h",
        "/usr/local/cuda/bin/../targets/x86_64-linux/include/driver.h",
        "/apps/cuda/12.4/include/a.h", "/home/me/toolkit/include/cuda_runtime.h",
        "/env/site-packages/torch/include/ATen/Tensor.h"}) {
    EXPECT_TRUE(is_library_header(file)) << file;
    EXPECT_FALSE(is_user_file(file)) << file;
  }
}

TEST(LibraryHeader, NotTheUsersOwn) {
  for (const char* file :
       {"/home/me/job/include/step.h", "/home/me/job/cuda/include/kernels.cuh",
        "/home/me/cuda_kernels/include/a.h", "/home/me/v2/include/a.h", "kit.h", "train.cc", ""}) {
    EXPECT_FALSE(is_library_header(file)) << file;
  }
}

FrameNow frame(const char* function, const char* file, int line) {
  return {function, file, line, kProgram, false};
}

TEST(PlaceNow, IsNoHeaderOfALibrary) {
  ThreadNow thread;
  thread.native = {frame("main", kMutexHeader, 749), frame("main", "/home/me/job/train.cc", 21)};
  EXPECT_EQ(place_text(*place_now(thread, {0})), "train.cc:21 in main");
  thread.native.front().file = "/home/me/job/kit.h";
  EXPECT_EQ(place_text(*place_now(thread, {0})), "kit.h:749 in main");
}

ProcessTrace program_with(std::vector<uint64_t> native) {
  ProcessTrace trace;
  ModuleText module;
  module.path = kProgram;
  module.begin = 0x1000;
  module.end = 0x2000;
  trace.modules = {module};
  trace.stacks[1].native = std::move(native);
  trace.code[0x1100] = {"cudaMalloc<float>", "/usr/local/cuda/include/cuda_runtime.h", 879};
  trace.code[0x1200] = {"setup", "/home/me/job/train.cc", 12};
  return trace;
}

TEST(UserPlace, IsWhoCalledTheHeadersFunction) {
  EXPECT_EQ(place_text(*user_place(program_with({0x1100, 0x1200}), {0}, 1)),
            "train.cc:12 in setup");
  // Nothing else is known.
  EXPECT_EQ(user_place(program_with({0x1100}), {0}, 1)->line, 879);
}

// ------------------------------------------------------------------ this very program
std::vector<uint64_t> g_native;
int g_line = 0;

[[gnu::noinline]] void note_stack() {
  void* frames[16];
  const int count = backtrace(frames, 16);
  // Not this one, nor what a sanitizer puts above it.
  void** const caller = std::find(frames, frames + count, __builtin_return_address(0));
  for (void** frame = caller; frame != frames + count; ++frame) {
    g_native.push_back(reinterpret_cast<uint64_t>(*frame));
  }
}

// Through functions of a header, inlined or not.
[[gnu::noinline]] void call_by_library() {
  g_line = __LINE__ + 1;
  std::invoke(std::ref(note_stack));
  asm volatile("");
}

Run run_of_this() {
  g_native.clear();
  call_by_library();
  Run run;
  ProcessTrace& trace = run.processes.emplace_back();
  trace.modules = {testing::this_program()};
  trace.stacks[1].native = g_native;
  return run;
}

void expect_line(Run run) {
  Symbolizer symbolizer;
  look_up_code(run, symbolizer);
  const auto place = user_place(run.processes[0], {0}, 1);
  ASSERT_TRUE(place);
  EXPECT_EQ(place_text(*place).substr(0, place_text(*place).find(' ')),
            "model_user_place.cc:" + std::to_string(g_line));
}

TEST(LookUpCode, WhereAFunctionWasPutOnAStream) {
  traintrace::Run run = run_of_this();
  run.processes[0].host_functions.emplace_back().stack = 1;
  expect_line(std::move(run));
}

TEST(LookUpCode, WhereAGroupWasOpened) {
  traintrace::Run run = run_of_this();
  run.processes[0].threads.emplace_back().group_stack = 1;
  expect_line(std::move(run));
}

TEST(LookUpCode, WhereAnythingWasCalled) {
  traintrace::Run run = run_of_this();
  run.processes[0].events.emplace_back().stack = 1;
  expect_line(std::move(run));
}

}  // namespace
}  // namespace traintrace
