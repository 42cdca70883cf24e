// test: timeout=240
// Processes and threads that come and go: each process has its own trace, its end is noted, and the
// tracer's own thread is in nobody's way.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;
namespace format = traintrace::format;
namespace fs = std::filesystem;

void call(int value) {
  cudaMemset(nullptr, value, 0);
}

std::vector<RawTrace> traces_of(const std::string& role, int status = 0,
                                std::vector<std::string> arguments = {}) {
  const Folder folder;
  arguments.insert(arguments.begin(), folder.path());
  preload::Program program = preload::self(role, arguments);
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_RING_MB", "8"}};
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(status)) << outcome.status << outcome.output << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  std::vector<RawTrace> traces;
  for (const std::string& path : folder.traces()) {
    traces.push_back(preload::read_raw(path));
    EXPECT_EQ(traces.back().problems, std::vector<std::string>());
  }
  return traces;
}

// The values of the calls in a trace, sorted.
std::vector<uint64_t> values_in(const RawTrace& trace) {
  std::vector<uint64_t> values;
  for (const auto& record : trace.of("cudaMemset", format::kEnter)) {
    values.push_back(trace.value(record, "value"));
  }
  std::sort(values.begin(), values.end());
  return values;
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ROLE(fork_without_cuda) {
  call(1);
  const pid_t child = fork();
  if (child == 0) {
    std::printf("child\n");
    std::fflush(stdout);
    _exit(7);
  }
  const int status = wait_for(child);
  call(2);
  return status == 7 ? 0 : 1;
}

TEST(Processes, AForkedChildThatUsesNoCudaLeavesNothing) {
  const auto traces = traces_of("fork_without_cuda");
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(values_in(traces[0]), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(traces[0].header.exit_kind, format::kExit);
  EXPECT_EQ(traces[0].header.exit_status, 0);
}

// By fork() and by the kernel's own call, which runs no handlers.
pid_t fork_by(const std::string& how) {
  return how == "fork" ? fork() : static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

ROLE(fork_with_cuda) {
  call(1);
  std::thread([] { call(2); }).join();
  const pid_t child = fork_by(arguments.at(1));
  if (child == 0) {
    call(3);
    call(4);
    _exit(8);
  }
  const int status = wait_for(child);
  call(5);
  return status == 8 ? 0 : 1;
}

// A child waits a tenth of a second for recording to begin, and no longer, which a busy machine may
// need; it tells what it misses.  Such a run says nothing of what is asked here.
std::vector<RawTrace> traces_of_patient(const std::string& role, const std::string& how) {
  constexpr int kMostTries = 20;
  std::vector<RawTrace> traces;
  for (int tries = 0; tries < kMostTries; ++tries) {
    traces = traces_of(role, 0, {how});
    if (std::none_of(traces.begin(), traces.end(),
                     [](const RawTrace& trace) { return trace.stats.contains("before-arming"); })) {
      break;
    }
  }
  return traces;
}

TEST(Processes, AForkedChildThatUsesCudaHasItsOwnTrace) {
  for (const char* how : {"fork", "clone"}) {
    auto traces = traces_of_patient("fork_with_cuda", how);
    ASSERT_EQ(traces.size(), 2u) << how;
    if (traces[0].header.pid == traces[1].header.parent_pid) {
      std::swap(traces[0], traces[1]);
    }
    EXPECT_EQ(values_in(traces[0]), (std::vector<uint64_t>{3, 4}));
    EXPECT_EQ(traces[0].header.exit_kind, format::kFastExit);
    EXPECT_EQ(traces[0].header.exit_status, 8);
    EXPECT_EQ(values_in(traces[1]), (std::vector<uint64_t>{1, 2, 5}));
    EXPECT_EQ(traces[1].header.exit_kind, format::kExit);
    EXPECT_EQ(traces[0].header.parent_pid, traces[1].header.pid);
    EXPECT_EQ(traces[0].facts.count("cuda-driver-version"), 1u);
  }
}

// Children of vfork share the parent's memory until they are something else.
ROLE(vfork_and_exec) {
  call(1);
  const pid_t child = vfork();
  if (child == 0) {
    execl("/does/not/exist", "nothing", nullptr);
    _exit(9);
  }
  const int status = wait_for(child);
  call(2);
  raise(SIGKILL);
  return status;
}

TEST(Processes, AChildOfVforkIsNotThisProcess) {
  const Folder folder;
  preload::Program program = preload::self("vfork_and_exec");
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  EXPECT_TRUE(preload::run(program).killed_by(SIGKILL));
  ASSERT_EQ(folder.traces().size(), 1u);
  const RawTrace trace = preload::read_raw(folder.traces()[0]);
  EXPECT_EQ(values_in(trace), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(trace.header.exit_kind, format::kNotExited);
}

// Many forks while other threads record: what the child inherits is in any state.
ROLE(fork_often) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        call(1);
      }
    });
  }
  int failed = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(6);
    }
    failed += wait_for(child) != 6;
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  return failed;
}

TEST(Processes, ForksWhileOthersRecord) {
  EXPECT_EQ(traces_of("fork_often").size(), 1u);
}

// A thread that does not exist in the child may have held the loader's lock.
ROLE(fork_while_loading) {
  void* const driver = dlopen(PRELOAD_FIXTURES "/libfake_vendor.so", RTLD_NOW);
  const auto release = reinterpret_cast<int (*)(unsigned long)>(dlsym(driver, "cuMemFree_v2"));
  std::atomic<bool> stop = false;
  std::thread looks([&] {
    while (!stop) {
      dl_iterate_phdr([](dl_phdr_info*, size_t, void*) { return 0; }, nullptr);
    }
  });
  int failed = 0;
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // ends it if it hangs
      release(1);
      _exit(release(2));
    }
    failed += wait_for(child) != 0;
  }
  stop = true;
  looks.join();
  return failed;
}

TEST(Processes, AForkedChildDoesNotWaitForTheLoader) {
  for (const RawTrace& trace : traces_of("fork_while_loading")) {
    // It does not wait long for recording to begin either: what a busy machine lets it miss is
    // told.
    const auto missed = trace.stats.find("before-arming");
    EXPECT_EQ(trace.left("cuMemFree_v2") + (missed == trace.stats.end() ? 0 : missed->second), 2u);
  }
}

const std::atomic<int>& slow_walks() {
  return *static_cast<std::atomic<int>*>(dlsym(RTLD_DEFAULT, "slow_walks_begun"));  // slow_walk.cc
}

// The tracer's own thread walks once a second.
bool is_a_walk_begun() {
  const int before = slow_walks();
  for (int look = 0; look < 30'000 && slow_walks() == before; ++look) {
    usleep(1000);
  }
  return slow_walks() != before;
}

void expect_well_with_slow_walks(const std::string& role) {
  const Folder folder;
  preload::Program program = preload::self(role, {folder.path()});
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  program.preload_before = PRELOAD_FIXTURES "/libslow_walk.so";
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.output << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
}

// A child that was forked during a walk of the tracer's could load nothing: fork() waits for its
// end.
ROLE(fork_during_a_walk) {
  call(1);
  int failed = 0;
  for (int i = 0; i < 3; ++i) {
    failed += !is_a_walk_begun();
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // ends it if it hangs
      _exit(dlopen(PRELOAD_FIXTURES "/libfake_vendor.so", RTLD_NOW) != nullptr ? 0 : 1);
    }
    failed += wait_for(child) != 0;
  }
  return failed;
}

TEST(Processes, ForkWaitsForAWalkOfTheLoadersList) {
  expect_well_with_slow_walks("fork_during_a_walk");
}

std::atomic<bool> g_walked_during_fork = false;

// A handler of the job's, which runs after the tracer's, waits for a thread that is about to walk.
ROLE(fork_that_waits_for_a_walk) {
  pthread_atfork([] { g_walked_during_fork = is_a_walk_begun(); }, nullptr, nullptr);
  call(1);
  const pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  return wait_for(child) == 0 && g_walked_during_fork ? 0 : 1;
}

TEST(Processes, AWalkDoesNotWaitForeverForAFork) {
  expect_well_with_slow_walks("fork_that_waits_for_a_walk");
}

constexpr useconds_t kLifeUs = 50'000;

ROLE(end) {
  call(1);
  usleep(kLifeUs);
  const std::string& how = arguments.at(1);
  if (how == "exit") {
    exit(3);
  } else if (how == "_exit") {
    _exit(3);
  } else if (how == "_Exit") {
    _Exit(3);
  } else if (how == "quick_exit") {
    quick_exit(3);
  }
  return 3;
}

TEST(Processes, TheirEndIsNoted) {
  for (const char* how : {"return", "exit", "_exit", "_Exit", "quick_exit"}) {
    const auto traces = traces_of("end", 3, {how});
    ASSERT_EQ(traces.size(), 1u);
    const bool fast = std::string(how).find('_') != std::string::npos;
    EXPECT_EQ(traces[0].header.exit_kind, fast ? format::kFastExit : format::kExit) << how;
    EXPECT_EQ(traces[0].header.exit_status, 3) << how;
    EXPECT_GE(traces[0].header.exit_ticks, traces[0].header.armed_ticks);
    // However short its life was, it tells how fast its clock went.
    const format::FileHeader& header = traces[0].header;
    EXPECT_GE(header.anchors[header.anchor_index & 1].monotonic_ns,
              header.first_anchor.monotonic_ns + kLifeUs * 1000UL)
        << how;
  }
}

// The process ends with its last thread, which must not be the tracer's.
ROLE(main_leaves) {
  call(1);
  std::thread([] {
    usleep(100'000);
    call(2);
  }).detach();
  pthread_exit(nullptr);
}

TEST(Processes, TheMainThreadMayLeaveFirst) {
  const auto traces = traces_of("main_leaves");
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(values_in(traces[0]), (std::vector<uint64_t>{1, 2}));
}

ROLE(many_threads) {
  for (int i = 0; i < 1000; ++i) {
    constexpr int kAtOnce = 10;
    std::vector<std::thread> threads;
    threads.reserve(kAtOnce);
    for (int k = 0; k < kAtOnce; ++k) {
      threads.emplace_back([] {
        call(1);
        call(2);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  return 0;
}

TEST(Processes, ThreadsThatComeAndGo) {
  const auto traces = traces_of("many_threads");
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(traces[0].stats.count("threads-full"), 0u);
  EXPECT_EQ(traces[0].stats.count("no-chunk"), 0u);
  uint64_t overwritten = 0;
  if (traces[0].stats.contains("ring-overwritten")) {
    overwritten = traces[0].stats.at("ring-overwritten");
  }
  EXPECT_EQ(traces[0].records.size() + overwritten, 10'000u * 4);
  EXPECT_LE(traces[0].threads.size(), 4096u);
}

// Recording starts in the middle of many first calls; what is not recorded is counted.
ROLE(start_together) {
  constexpr int kThreads = 16;
  std::atomic<int> ready = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++ready;
      while (ready < kThreads) {
      }
      call(1);
      call(1);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return 0;
}

TEST(Processes, ThreadsThatStartTogether) {
  const auto traces = traces_of("start_together");
  ASSERT_EQ(traces.size(), 1u);
  const auto missed = traces[0].stats.find("before-arming");
  EXPECT_EQ(
      traces[0].entered("cudaMemset") + (missed == traces[0].stats.end() ? 0 : missed->second),
      32u);
}

// The first call may come from a thread with hardly any stack.
ROLE(small_stack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64UL * 1024);
  cudaGetDeviceCount(nullptr);  // the libraries start with a stack as large as they want
  pthread_t thread;
  const int error = pthread_create(
      &thread, &attributes,
      [](void*) -> void* {
        cudaMemset(nullptr, 1, 0);
        return nullptr;
      },
      nullptr);
  return error ? error : pthread_join(thread, nullptr);
}

TEST(Processes, AThreadWithASmallStack) {
  const auto traces = traces_of("small_stack");
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(values_in(traces[0]), (std::vector<uint64_t>{1}));
}

// Blocks all signals, has a name, writes a last-alive time again and again.
ROLE(own_thread) {
  call(1);
  std::string path;
  while (path.empty()) {  // until the keeper has made its first copy, and given it its name
    usleep(1000);
    for (const auto& entry : fs::directory_iterator(arguments.at(0))) {
      path = entry.path().extension() == ".trace" ? entry.path().string() : path;
    }
  }
  const auto alive = [&] { return preload::read_raw(path).header.last_alive_ticks; };
  const uint64_t first = alive();
  for (uint64_t second = first; second == first; second = alive()) {
    usleep(50'000);
  }
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    const std::string text{std::istreambuf_iterator<char>(status), {}};
    if (text.find("Name:\ttraintrace\n") != std::string::npos) {
      std::puts(text.substr(text.find("SigBlk:")).substr(0, 24).c_str());
    }
  }
  return 0;
}

TEST(Processes, OneOwnThreadThatTakesNoSignals) {
  const Folder folder;
  preload::Program program = preload::self("own_thread", {folder.path()});
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_RING_MB", "1"}};
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  // All but SIGKILL, SIGSTOP, the two that glibc keeps for itself, and SIGSYS, by which a sandbox
  // answers a call.
  EXPECT_EQ(outcome.output, "SigBlk:\tfffffffe3ffbfeff\n");
}

}  // namespace
