// test: timeout=300 labels=slow
// A trace is sound whenever its process is killed, and misses nothing that was said to be there.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::RawTrace;

constexpr int kThreads = 3;

// Counts in shared memory what it has done, so that it can be compared after its death.
struct Progress {
  uint64_t returned[kThreads];  // calls
  uint64_t entering[kThreads];
};

Progress* map_progress(const std::string& name, bool create) {
  const int file = shm_open(name.c_str(), create ? O_RDWR | O_CREAT : O_RDWR, 0600);
  if (create && ftruncate(file, sizeof(Progress)) != 0) {
    return nullptr;
  }
  void* const memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return static_cast<Progress*>(memory);
}

void work(Progress& progress, int thread) {
  for (;;) {
    __atomic_add_fetch(&progress.entering[thread], 1, __ATOMIC_SEQ_CST);
    cudaMemset(nullptr, thread, 0);
    __atomic_add_fetch(&progress.returned[thread], 1, __ATOMIC_SEQ_CST);
  }
}

ROLE(work) {
  Progress& progress = *map_progress(arguments.at(0), false);
  cudaFree(nullptr);
  std::vector<std::thread> all;
  all.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    all.emplace_back(work, std::ref(progress), i);
  }
  all[0].join();
  return 0;
}

// Enter and leave records of each thread's calls that are still in the ring, plus what was
// overwritten, against what the threads had done.
void compare(const RawTrace& trace, const Progress& progress) {
  uint64_t events = 0;
  for (const auto& thread : trace.threads) {
    events += thread.events;
  }
  uint64_t returned = 0;
  uint64_t entering = 0;
  for (int i = 0; i < kThreads; ++i) {
    returned += progress.returned[i];
    entering += progress.entering[i];
  }
  const uint64_t of_main = 2;  // cudaFree
  EXPECT_GE(events + 2UL * kThreads, 2 * returned + of_main);
  EXPECT_LE(events, 2 * entering + of_main);
}

TEST(Killed, AtAnyMoment) {
  std::mt19937 random(7);
  int latest_us = 60'000;  // and later where the machine is slow to come to the trace
  int with_trace = 0;
  for (int round = 0; round < 60; ++round) {
    const Folder folder;
    const std::string name = "/preload-killed-" + std::to_string(getpid());
    Progress* const progress = map_progress(name, true);
    ASSERT_NE(progress, nullptr);
    *progress = {};
    preload::Program program = preload::self("work", {name});
    program.environment = {{"TRAINTRACE_DIR", folder.path()},
                           {"TRAINTRACE_RING_MB", round % 2 ? "1" : "16"},
                           {"TRAINTRACE_STACKS", round % 3 ? "off" : "all"}};
    program.kill_after_us = std::uniform_int_distribution<int>(0, latest_us)(random);
    const int before = with_trace;
    const preload::Outcome outcome = preload::run(program);
    ASSERT_TRUE(outcome.killed_by(SIGKILL)) << outcome.errors;
    for (const std::string& path : folder.traces()) {
      const RawTrace trace = preload::read_raw(path);
      if (!trace.header.ready) {
        continue;
      }
      ++with_trace;
      EXPECT_EQ(trace.problems, std::vector<std::string>()) << "round " << round;
      EXPECT_EQ(trace.header.exit_kind, traintrace::format::kNotExited);
      compare(trace, *progress);
    }
    latest_us += with_trace == before ? latest_us / 10 : 0;
    munmap(progress, sizeof *progress);
    shm_unlink(name.c_str());
  }
  EXPECT_GT(with_trace, 10);
}

}  // namespace
