// test: link=none
// A call reaches the library that it would reach without us, also where several have the function;
// and finding it never waits for a thread that waits for the call.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::string fixture(const char* name) {
  return std::string(PRELOAD_FIXTURES) + "/lib" + name + ".so";
}

struct Both {
  Outcome plain;
  Outcome traced;
  RawTrace trace;
};

Both run_both(const std::string& role, const std::string& more_preloads = "") {
  Both both;
  for (const bool traced : {false, true}) {
    const Folder folder;
    preload::Program program = preload::self(role, {folder.path()});
    program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"},
                           {"TRAINTRACE_RING_MB", "1"}};
    program.traced = traced;
    if (traced) {
      program.preload_after = more_preloads;
    } else if (!more_preloads.empty()) {
      program.environment["LD_PRELOAD"] = more_preloads;
    }
    (traced ? both.traced : both.plain) = preload::run(program);
    if (traced) {
      for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/traces")) {
        both.trace = preload::read_raw(entry.path());
      }
    }
  }
  return both;
}

void* open_as(const std::filesystem::path& copy, int how) {
  std::filesystem::copy_file(fixture("own_runtime"), copy);
  return dlopen(copy.c_str(), RTLD_NOW | how);
}

// Of several extensions each has a runtime of its own: what is registered with one is launched
// there.  More of them than can be told apart by number are told apart all the same.
ROLE(many_runtimes) {
  constexpr int kExtensions = 20;
  int failed = 0;
  for (int i = 0; i < kExtensions; ++i) {
    const std::string copy = arguments.at(0) + "/libextension" + std::to_string(i) + ".so";
    void* const extension = open_as(copy, RTLD_LOCAL);
    failed += extension && find<int()>(extension, "launch")() == 0 ? 0 : 1;
  }
  std::printf("%d failed\n", failed);
  return failed;
}

TEST(Bound, EachExtensionReachesItsOwnRuntime) {
  const Both both = run_both("many_runtimes");
  EXPECT_TRUE(both.traced.exited_with(0)) << both.traced.errors;
  EXPECT_EQ(both.traced.output, both.plain.output);
  EXPECT_EQ(both.trace.left("cudaLaunchKernel"), 20u);
}

// What all can see comes before what a library brings along.
ROLE(runtime_for_all) {
  const std::string& folder = arguments.at(0);
  void* const first = open_as(folder + "/libcudart-first.so", RTLD_GLOBAL);
  void* const second = open_as(folder + "/libcudart-second.so", RTLD_LOCAL);
  const int results[] = {find<int()>(first, "launch")(), find<int()>(second, "launch")()};
  std::printf("%d %d\n", results[0], results[1]);
  return 0;
}

TEST(Bound, WhatIsGlobalComesFirst) {
  const Both both = run_both("runtime_for_all");
  EXPECT_TRUE(both.traced.exited_with(0)) << both.traced.errors;
  EXPECT_EQ(both.traced.output, both.plain.output);
}

// As the fixture, but that it says `to` wherever that says `from`.
void copy_renamed(const char* name, const std::string& target, const std::string& from,
                  const std::string& to) {
  std::string bytes = preload::read_whole(fixture(name));
  for (size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at)) {
    bytes.replace(at, from.size(), to);
  }
  std::ofstream(target, std::ios::binary) << bytes;
}

// A library that comes to lie where another one was is not taken for that.
ROLE(in_its_place) {
  const std::filesystem::path folder = arguments.at(0);
  const std::string runtimes[] = {"libcudart-0001.so", "libcudart-0002.so"};
  const std::filesystem::path libraries[] = {folder / "first.so", folder / "second.so"};
  for (int i = 0; i < 2; ++i) {
    copy_renamed("own_runtime", folder / runtimes[i], "libown_runtime.so", runtimes[i]);
    copy_renamed("registers", libraries[i], "libown_runtime.so", runtimes[i]);
    dlopen((folder / runtimes[i]).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  int wrong = 0;
  for (int i = 0; i < 6; ++i) {
    void* const library = dlopen(libraries[i % 2].c_str(), RTLD_NOW | RTLD_LOCAL);
    Dl_info reached = {};
    dladdr(find<void*()>(library, "allocate_there")(), &reached);
    wrong += folder / runtimes[i % 2] == reached.dli_fname ? 0 : 1;
    dlclose(library);
  }
  std::printf("%d wrong\n", wrong);
  return wrong;
}

TEST(Bound, InPlaceOfAnother) {
  const Both both = run_both("in_its_place");
  EXPECT_EQ(both.plain.output, "0 wrong\n");
  EXPECT_EQ(both.traced.output, "0 wrong\n");
}

// So does another preload that has but one of the functions, although the first call is not to
// that.
TEST(Bound, SoDoesAnotherPreload) {
  const Both both = run_both("many_runtimes", fixture("chained"));
  EXPECT_EQ(both.traced.status, both.plain.status);
  EXPECT_EQ(both.traced.output, both.plain.output);
  EXPECT_NE(both.traced.output.find("chained 1"), std::string::npos);
}

// A thread that does what others hand over.
sem_t g_handed_over;
sem_t g_done;
int (*g_work)() = nullptr;
int g_result = 0;

int have_done(int (*work)()) {
  g_work = work;
  sem_post(&g_handed_over);
  sem_wait(&g_done);
  return g_result;
}

void work_for_ever() {
  for (;;) {
    sem_wait(&g_handed_over);
    g_result = g_work();
    sem_post(&g_done);
  }
}

CUcontext g_context = nullptr;
void* g_driver = nullptr;

int take_context() {
  return find<decltype(cuCtxSetCurrent)>(g_driver, "cuCtxSetCurrent")(g_context);
}

ROLE(handed_over) {
  constexpr unsigned kTooLong = 20;
  alarm(kTooLong);
  g_driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  CUdeviceptr memory = 0;
  if (!g_driver || find<decltype(cuInit)>(g_driver, "cuInit")(0) != CUDA_SUCCESS ||
      find<decltype(cuDevicePrimaryCtxRetain)>(g_driver, "cuDevicePrimaryCtxRetain")(
          &g_context, 0) != CUDA_SUCCESS ||
      take_context() != 0 ||
      find<decltype(cuMemAlloc)>(g_driver, "cuMemAlloc_v2")(&memory, 64) != CUDA_SUCCESS) {
    return 1;
  }
  sem_init(&g_handed_over, 0, 0);
  sem_init(&g_done, 0, 0);
  std::thread(work_for_ever).detach();
  char address[32];
  std::snprintf(address, sizeof address, "%lx", reinterpret_cast<unsigned long>(&have_done));
  setenv("HAVE_DONE", address, 1);
  if (have_done(take_context) != 0) {
    return 2;
  }
  void* const plugin = dlopen(arguments.at(1).c_str(), RTLD_NOW);
  const int closed = plugin ? dlclose(plugin) : -1;
  std::fflush(stdout);
  _exit(closed);
}

TEST(Bound, NoCallWaitsForTheLoader) {
  for (const bool traced : {false, true}) {
    const Folder folder;
    preload::Program program = preload::self("handed_over", {folder.path(), fixture("hands_over")});
    program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"}};
    program.traced = traced;
    const Outcome outcome = preload::run(program);
    EXPECT_TRUE(outcome.exited_with(0)) << traced << outcome.errors;
    EXPECT_EQ(outcome.output, "begun 0\nended 0\n") << traced;
  }
}

#if defined(__x86_64__)
// Calls from places whose pages have one place in the table of callers.
constexpr size_t kApart = size_t{16} << 20;

using CallFrom = int (*)(int (*function)(uint64_t), uint64_t argument);

CallFrom caller_at(char* address) {
  // mov rax, rdi; mov rdi, rsi; sub rsp, 8; call rax; add rsp, 8; ret
  constexpr unsigned char kCode[] = {0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x83, 0xec,
                                     0x08, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3};
  std::memcpy(address, kCode, sizeof kCode);
  return reinterpret_cast<CallFrom>(address);
}

// The least of several rounds, in ns a call.
uint64_t time_calls(CallFrom first, CallFrom second, int (*function)(uint64_t)) {
  using Clock = std::chrono::steady_clock;
  constexpr int kCalls = 2000;
  Clock::duration least = Clock::duration::max();
  for (int round = 0; round < 20; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      (i % 2 == 0 ? first : second)(function, 0);
    }
    least = std::min(least, Clock::now() - begin);
  }
  return static_cast<uint64_t>(std::chrono::nanoseconds(least).count()) / kCalls;
}

ROLE(far_apart) {
  void* const runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  void* memory = nullptr;
  find<int(void**, size_t)>(runtime, "cudaMalloc")(&memory, 64);
  const auto query = find<int(uint64_t)>(runtime, "cudaStreamQuery");
  auto* const code = static_cast<char*>(mmap(
      nullptr, 4 * kApart, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const CallFrom first = caller_at(code);
  const uint64_t alone_ns = time_calls(first, first, query);
  const uint64_t in_turn_ns = time_calls(first, caller_at(code + kApart), query);
  std::printf("%lu %lu\n", alone_ns, in_turn_ns);
  return in_turn_ns < 2 * alone_ns + 100 ? 0 : 1;
}

TEST(Bound, CallersDoNotDriveEachOtherOut) {
  const Both both = run_both("far_apart");
  EXPECT_TRUE(both.traced.exited_with(0)) << both.traced.output;
}
#endif

// A program that embeds Python, and closes it: nothing of it is called any more afterwards, or it
// is still there.
struct PythonFunction {
  const char* name;
  void* (*function)(void*, void*);
  int flags;
  const char* text;
};
constexpr int kNoArguments = 4;
constexpr const char* kPython = "libpython3.11.so.1.0";

// Loaded before Python, or it might be bound to something there, which would keep that.
void* g_runtime = nullptr;

int allocate_once() {
  void* memory = nullptr;
  const int result = find<int(void**, size_t)>(g_runtime, "cudaMalloc")(&memory, 64);
  return result != 0 ? result : find<int(void*)>(g_runtime, "cudaFree")(memory);
}

void* (*g_number)(long) = nullptr;

ROLE(embedded) {
  g_runtime = dlopen("libcudart.so.13", RTLD_NOW);
  for (int round = 0; round < 3; ++round) {
    void* const python = dlopen(kPython, RTLD_NOW | RTLD_GLOBAL);
    PythonFunction functions[] = {
        {"call", [](void*, void*) { return g_number(allocate_once()); }, kNoArguments, nullptr},
        {nullptr, nullptr, 0, nullptr}};
    g_number = find<void*(long)>(python, "PyLong_FromLong");
    find<void(int)>(python, "Py_InitializeEx")(0);
    void* const main = find<void*(const char*)>(python, "PyImport_AddModule")("__main__");
    find<int(void*, PythonFunction*)>(python, "PyModule_AddFunctions")(main, functions);
    const int run = find<int(const char*)>(python, "PyRun_SimpleString")(
        "def inner(): return call()\ndef outer(): return inner()\nassert outer() == 0\n");
    const int ended = find<int()>(python, "Py_FinalizeEx")();
    const int closed = dlclose(python);
    std::printf("%d %d %d %d\n", run, ended, closed, allocate_once());
  }
  return 0;
}

TEST(Bound, PythonThatIsClosed) {
  if (void* const python = dlopen(kPython, RTLD_NOW)) {
    dlclose(python);
  } else {
    GTEST_SKIP() << "there is no " << kPython;
  }
  const Both both = run_both("embedded");
  EXPECT_TRUE(both.plain.exited_with(0)) << both.plain.errors;
  EXPECT_TRUE(both.traced.exited_with(0)) << both.traced.errors;
  EXPECT_EQ(both.traced.output, both.plain.output);
}

}  // namespace
