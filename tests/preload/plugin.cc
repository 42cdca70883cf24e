// test: timeout=240
// TRAINTRACE_GPU_PROGRESS=plugin in real processes: NCCL loads the preloaded library as its
// profiler plugin, and the dump says of each operation what NCCL reported.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/gpu_states.h"
#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::count_of;
using preload::dump_of_one;
using preload::fact_in;
using preload::Folder;
using preload::Outcome;
using preload::Program;
using preload::Rank;
using preload::States;
using preload::states_in;
using preload::traces_in;

#define MUST(call)   \
  do {               \
    if ((call) != 0) \
      return 1;      \
  } while (false)

Program followed(const std::string& role, const Folder& folder,
                 std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), folder.path());
  Program program = preload::self(role, arguments);
  program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"},
                         {"TRAINTRACE_GPU_PROGRESS", "plugin"}};
  return program;
}

ROLE(finishes) {
  Rank rank;
  MUST(!rank.make(arguments.at(0), 1, 0));
  MUST(!rank.reduce());
  MUST(ncclGroupStart());
  MUST(!rank.reduce());
  MUST(!rank.reduce());
  MUST(ncclGroupEnd());
  MUST(cudaStreamSynchronize(rank.stream));
  return 0;
}

TEST(Plugin, SaysWhatHasFinished) {
  const Folder folder;
  Program program = followed("finishes", folder);
  program.environment["SIMGPU_VERBOSE"] = "1";
  const Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  const std::string text = dump_of_one(folder);
  EXPECT_EQ(fact_in(text, "gpu-progress"), "plugin");
  EXPECT_EQ(states_in(text), States(3, "finished"));
  EXPECT_EQ(count_of(outcome.errors, "cuStreamWriteValue32"), 0u);
  EXPECT_EQ(count_of(outcome.errors, "cuMemHostRegister"), 0u);
}

// The first operation was reported, so of the others it is known that no kernel works on them.
ROLE(blocked) {
  Rank rank;
  void* flag = nullptr;
  MUST(!rank.make(arguments.at(0), 1, 0));
  MUST(cudaHostAlloc(&flag, 4, cudaHostAllocMapped));
  std::memset(flag, 0, 4);
  MUST(!rank.reduce());
  MUST(cudaStreamSynchronize(rank.stream));
  MUST(cuStreamWaitValue32(rank.stream, reinterpret_cast<CUdeviceptr>(flag), 1,
                           CU_STREAM_WAIT_VALUE_EQ));
  MUST(!rank.reduce());
  if (arguments.at(1) == "abort") {
    ncclCommAbort(rank.comm);
    *static_cast<volatile int*>(flag) = 1;
    MUST(cudaStreamSynchronize(rank.stream));
    return 0;
  }
  raise(SIGKILL);
  return 1;
}

TEST(Plugin, OfABlockedStreamIsNotReached) {
  for (const char* how : {"die", "abort"}) {
    const Folder folder;
    const Outcome outcome = preload::run(followed("blocked", folder, {how}));
    ASSERT_TRUE(outcome.exited_with(0) || outcome.killed_by(SIGKILL)) << outcome.errors;
    EXPECT_EQ(states_in(dump_of_one(folder)), (States{"finished", "enqueued"})) << how;
  }
}

// Rank 1 stays away from the last operation.  Rank 0 is killed by the test when its kernel waits.
ROLE(member) {
  Rank rank;
  const int number = std::stoi(arguments.at(1));
  const std::string ready = arguments.at(0) + "/ready";
  MUST(!rank.make(arguments.at(0), 2, number));
  MUST(!rank.reduce());
  MUST(cudaStreamSynchronize(rank.stream));
  if (number == 0) {
    MUST(!rank.reduce());
    std::ofstream(ready + ".new") << getpid();
    std::filesystem::rename(ready + ".new", ready);
  }
  for (;;) {
    pause();
  }
}

TEST(Plugin, OfAnOperationWithoutAMemberIsReachedOnly) {
  const Folder folder;
  Outcome outcomes[2];
  std::jthread ranks[2];
  Program programs[2];
  for (int i = 0; i < 2; ++i) {
    programs[i] = followed("member", folder, {std::to_string(i)});
    ranks[i] = std::jthread([&, i] { outcomes[i] = preload::run(programs[i]); });
  }
  const std::string ready = folder.path() + "/ready";
  while (!std::filesystem::exists(ready)) {
    usleep(1000);
  }
  // Living traces are read until the kernel was reported: how long that takes is not known.
  bool reached = false;
  while (!reached) {
    for (const std::string& trace : traces_in(folder)) {
      reached = reached || states_in(preload::dump(trace)) == States{"finished", "reached"};
    }
  }
  for (const std::string& trace : traces_in(folder)) {
    kill(preload::read_raw(trace).header.pid, SIGKILL);
  }
  for (std::jthread& rank : ranks) {
    rank.join();
  }
  EXPECT_TRUE(outcomes[0].killed_by(SIGKILL)) << outcomes[0].errors;
  std::vector<States> states;
  for (const std::string& trace : traces_in(folder)) {
    states.push_back(states_in(preload::dump(trace)));
  }
  std::sort(states.begin(), states.end());
  EXPECT_EQ(states, (std::vector<States>{{"finished"}, {"finished", "reached"}}));
}

TEST(Plugin, OfTheUserIsLeftAlone) {
  const Folder folder;
  Program program = followed("finishes", folder);
  program.environment["NCCL_PROFILER_PLUGIN"] = "none";
  ASSERT_TRUE(preload::run(program).exited_with(0));
  const std::string text = dump_of_one(folder);
  EXPECT_EQ(fact_in(text, "gpu-progress"),
            "\"observe: NCCL_PROFILER_PLUGIN names another plugin\"");
  EXPECT_EQ(states_in(text), States(3, "-"));
}

TEST(Plugin, IsNotLoadedUnlessAskedFor) {
  const Folder folder;
  Program program = followed("finishes", folder);
  program.environment.erase("TRAINTRACE_GPU_PROGRESS");
  ASSERT_TRUE(preload::run(program).exited_with(0));
  const std::string text = dump_of_one(folder);
  EXPECT_EQ(fact_in(text, "env.NCCL_PROFILER_PLUGIN"), "");
  EXPECT_EQ(states_in(text), States(3, "-"));
}

// Captured operations and those that a graph runs are not followed.
ROLE(captures) {
  Rank rank;
  MUST(!rank.make(arguments.at(0), 1, 0));
  MUST(!rank.reduce_and_replay());
  return 0;
}

TEST(Plugin, KeepsOutOfCaptures) {
  const Folder folder;
  ASSERT_TRUE(preload::run(followed("captures", folder)).exited_with(0));
  EXPECT_EQ(states_in(dump_of_one(folder)), (States{"finished", "-", "-", "finished"}));
}

}  // namespace
