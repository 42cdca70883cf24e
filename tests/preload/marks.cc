// test: timeout=240
// TRAINTRACE_GPU_PROGRESS=marks in real processes: what the dump says about each operation against
// what the program knows of it, and what happens where marks cannot be.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "format/trace_format.h"
#include "support/gpu_states.h"
#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::count_of;
using preload::dump;
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

std::string marks_folder() {
  return "/dev/shm/traintrace-" + std::to_string(geteuid());
}

// The marks files of a process that lives or was killed.
std::vector<std::string> marks_files(pid_t pid) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(marks_folder(), error)) {
    if (entry.path().filename().string().find("." + std::to_string(pid) + ".") !=
        std::string::npos) {
      found.push_back(entry.path());
    }
  }
  return found;
}

// Until the GPU has written that value: how far it is, the program itself cannot see.
void wait_for_reached(uint32_t value) {
  for (;;) {
    for (const std::string& path : marks_files(getpid())) {
      std::ifstream file(path, std::ios::binary);
      traintrace::format::MarkWords words[16] = {};
      file.seekg(traintrace::format::kMarksHeaderBytes);
      file.read(reinterpret_cast<char*>(words), sizeof words);
      for (const auto& word : words) {
        if (word.reached == value) {
          return;
        }
      }
    }
    usleep(1000);
  }
}

Program marked(const std::string& role, const Folder& folder,
               std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), folder.path());
  Program program = preload::self(role, arguments);
  program.environment = {{"TRAINTRACE_DIR", folder.path() + "/traces"},
                         {"TRAINTRACE_GPU_PROGRESS", "marks"}};
  return program;
}

ROLE(finishes) {
  Rank rank;
  MUST(!rank.make(arguments.at(0), 1, 0));
  for (int i = 0; i < 3; ++i) {
    MUST(!rank.reduce());
  }
  MUST(ncclGroupStart());
  MUST(!rank.reduce());
  MUST(!rank.reduce());
  MUST(ncclGroupEnd());
  MUST(cudaStreamSynchronize(rank.stream));
  std::printf("%d\n", getpid());
  return 0;
}

TEST(Marks, SayWhatHasFinishedAndLeaveNoFile) {
  const Folder folder;
  Program program = marked("finishes", folder);
  program.environment["SIMGPU_VERBOSE"] = "1";
  const Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  const std::string text = dump_of_one(folder);
  EXPECT_EQ(states_in(text), States(5, "finished"));
  EXPECT_EQ(fact_in(text, "gpu-progress"), "marks");
  EXPECT_EQ(count_of(outcome.errors, "cuStreamWriteValue32"), 8u) << outcome.errors;
  EXPECT_EQ(marks_files(std::stoi(outcome.output)), std::vector<std::string>());
  // Calls of the tracer are no calls of the job.
  EXPECT_EQ(count_of(text, "cuStreamWriteValue32"), 0u);
  EXPECT_EQ(count_of(text, "cuMemHostRegister"), 0u);
}

TEST(Marks, AreNotThereUnlessAskedFor) {
  const Folder folder;
  Program program = marked("finishes", folder);
  program.environment.erase("TRAINTRACE_GPU_PROGRESS");
  program.environment["SIMGPU_VERBOSE"] = "1";
  const Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_EQ(count_of(outcome.errors, "cuStreamWriteValue32"), 0u);
  EXPECT_EQ(count_of(outcome.errors, "cuMemHostRegister"), 0u);
  EXPECT_EQ(count_of(outcome.errors, "cuStreamIsCapturing"), 0u);
  const std::string text = dump_of_one(folder);
  EXPECT_EQ(fact_in(text, "gpu-progress"), "");
  EXPECT_EQ(states_in(text), States(5, "-"));
}

// Killed while the GPU waits in front of an operation.
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
  MUST(ncclGroupStart());
  MUST(!rank.reduce());
  MUST(ncclGroupEnd());
  if (arguments.at(1) == "abort") {
    ncclCommAbort(rank.comm);
    *static_cast<volatile int*>(flag) = 1;
    MUST(cudaStreamSynchronize(rank.stream));
    return 0;
  }
  raise(SIGKILL);
  return 1;
}

TEST(Marks, OfABlockedStreamAreNotReached) {
  const Folder folder;
  const Outcome outcome = preload::run(marked("blocked", folder, {"die"}));
  ASSERT_TRUE(outcome.killed_by(SIGKILL)) << outcome.errors;
  const std::string text = dump_of_one(folder);
  EXPECT_EQ(states_in(text), (States{"finished", "enqueued", "enqueued"}));
  const std::string file = fact_in(text, "marks-file");
  ASSERT_TRUE(std::filesystem::exists(file)) << file;
  // Without it, what was copied in the last second before is all: nothing that is not true.
  std::filesystem::remove(file);
  for (const std::string& state : states_in(dump_of_one(folder))) {
    EXPECT_NE(state, "reached");
  }
}

TEST(Marks, OfAnAbortedCommunicatorAreThoseBeforeTheAbort) {
  const Folder folder;
  const Outcome outcome = preload::run(marked("blocked", folder, {"abort"}));
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_EQ(states_in(dump_of_one(folder)), (States{"finished", "enqueued", "enqueued"}));
}

// Rank 1 stays away from the last operation.
ROLE(member) {
  Rank rank;
  const int number = std::stoi(arguments.at(1));
  MUST(!rank.make(arguments.at(0), 2, number));
  MUST(!rank.reduce());
  MUST(cudaStreamSynchronize(rank.stream));
  const std::string over = arguments.at(0) + "/over";
  if (number == 0) {
    MUST(!rank.reduce());
    wait_for_reached(2);
    const std::ofstream made(over);
    raise(SIGKILL);
  }
  while (!std::filesystem::exists(over)) {
    usleep(1000);
  }
  _exit(0);
}

TEST(Marks, OfAnOperationWithoutAMemberAreReachedOnly) {
  const Folder folder;
  Outcome outcomes[2];
  std::thread other([&] { outcomes[1] = preload::run(marked("member", folder, {"1"})); });
  outcomes[0] = preload::run(marked("member", folder, {"0"}));
  other.join();
  ASSERT_TRUE(outcomes[0].killed_by(SIGKILL)) << outcomes[0].errors;
  ASSERT_TRUE(outcomes[1].exited_with(0)) << outcomes[1].errors;
  const auto traces = traces_in(folder);
  ASSERT_EQ(traces.size(), 2u);
  std::vector<States> states;
  for (const std::string& trace : traces) {
    const std::string text = dump(trace);
    states.push_back(states_in(text));
    std::filesystem::remove(fact_in(text, "marks-file"));
  }
  std::sort(states.begin(), states.end());
  EXPECT_EQ(states[0], States{"finished"});
  EXPECT_EQ(states[1], (States{"finished", "reached"}));
}

// Captured operations get no marks; nor do those that a graph runs.
ROLE(captures) {
  Rank rank;
  MUST(!rank.make(arguments.at(0), 1, 0));
  MUST(!rank.reduce_and_replay());
  return 0;
}

TEST(Marks, StayOutOfCaptures) {
  const Folder folder;
  const Outcome outcome = preload::run(marked("captures", folder));
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_EQ(states_in(dump_of_one(folder)), (States{"finished", "-", "-", "finished"}));
}

// How a program can be such that marks cannot be.
ROLE(unsuited) {
  const std::string& how = arguments.at(1);
  Rank rank;
  ncclUniqueId id = {};
  if (how == "no-context") {
    MUST(ncclGetUniqueId(&id));
    MUST(ncclCommInitRank(&rank.comm, 1, id, 0));
  } else if (how == "two-devices") {
    ncclComm_t comms[2] = {};
    MUST(cudaFree(nullptr));
    MUST(ncclCommInitAll(comms, 2, nullptr));
    rank.comm = comms[0];
    return 0;
  } else if (how == "does-not-block") {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    MUST(cudaFree(nullptr));
    MUST(ncclGetUniqueId(&id));
    const ncclResult_t made = ncclCommInitRankConfig(&rank.comm, 1, id, 0, &config);
    ncclResult_t state = made;
    while (state == ncclInProgress) {
      MUST(ncclCommGetAsyncError(rank.comm, &state));
    }
    MUST(!rank.make_rest());
    const ncclResult_t result =
        ncclAllReduce(rank.data, rank.data, 8, ncclFloat32, ncclSum, rank.comm, rank.stream);
    MUST(result != ncclSuccess && result != ncclInProgress);
    do {
      MUST(ncclCommGetAsyncError(rank.comm, &state));
    } while (state == ncclInProgress);
    MUST(cudaStreamSynchronize(rank.stream));
    return 0;
  } else {
    MUST(!rank.make(arguments.at(0), 1, 0));
  }
  MUST(rank.stream == nullptr && !rank.make_rest());
  MUST(!rank.reduce());
  MUST(cudaStreamSynchronize(rank.stream));
  return 0;
}

std::string dump_of_unsuited(const std::string& how, const std::string& variable = "",
                             const std::string& value = "") {
  const Folder folder;
  Program program = marked("unsuited", folder, {how});
  program.environment["SIMGPU_VERBOSE"] = "1";
  if (!variable.empty()) {
    program.environment[variable] = value;
  }
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << how << outcome.errors;
  EXPECT_EQ(count_of(outcome.errors, "cuStreamWriteValue32"), 0u);
  return dump_of_one(folder);
}

TEST(Marks, GiveWayAndSayWhy) {
  EXPECT_EQ(fact_in(dump_of_unsuited("", "CUDA_DEVICE_MAX_CONNECTIONS", "1"), "gpu-progress"),
            "\"observe: CUDA_DEVICE_MAX_CONNECTIONS is 1\"");
  EXPECT_EQ(fact_in(dump_of_unsuited("", "SIMGPU_FAIL", "cuMemHostRegister@1+=2"), "gpu-progress"),
            "\"observe: the driver refused to pin memory\"");
  EXPECT_EQ(fact_in(dump_of_unsuited("two-devices"), "gpu-progress"),
            "\"observe: several devices in one process\"");
  EXPECT_EQ(fact_in(dump_of_unsuited("no-context"), "gpu-progress"),
            "\"observe: no context was current before the first communicator\"");
  const std::string text = dump_of_unsuited("does-not-block");
  EXPECT_EQ(fact_in(text, "gpu-progress"), "marks");
  EXPECT_EQ(fact_in(text, "gpu-progress.communicator-1"), "\"observe: it does not block\"");
  EXPECT_EQ(states_in(text), States{"-"});
}

TEST(Marks, ThatFailAreNobodysTrouble) {
  const Folder folder;
  Program program = marked("finishes", folder);
  program.environment["SIMGPU_FAIL"] = "cuStreamWriteValue32@2=801,cuStreamWriteValue32@5=801";
  const Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  const std::string text = dump_of_one(folder);
  // The first lost its second mark, the third its first.
  EXPECT_EQ(states_in(text), (States{"-", "finished", "-", "finished", "finished"}));
  EXPECT_NE(text.find("loss marks-failed 2"), std::string::npos);
}

// After cudaDeviceReset the words are not pinned any more: a write would hit memory that is not
// the GPU's.
ROLE(resets) {
  Rank rank;
  MUST(!rank.make(arguments.at(0), 1, 0));
  MUST(!rank.reduce());
  MUST(cudaStreamSynchronize(rank.stream));
  MUST(ncclCommDestroy(rank.comm));
  MUST(cudaDeviceReset());
  ncclUniqueId id = {};
  MUST(cudaFree(nullptr));
  MUST(ncclGetUniqueId(&id));
  MUST(ncclCommInitRank(&rank.comm, 1, id, 0));
  MUST(!rank.make_rest());
  rank.reduce();  // simgpu's NCCL does not get over the reset, with or without the tracer
  return 0;
}

TEST(Marks, EndWithTheirContext) {
  const Folder folder;
  const Outcome outcome = preload::run(marked("resets", folder));
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  const std::string text = dump_of_one(folder);
  EXPECT_EQ(states_in(text), (States{"finished", "-"}));
  EXPECT_EQ(fact_in(text, "gpu-progress-ended"),
            "\"the context that the memory was pinned in has ended\"");
}

// What killed processes leave is removed by a later one, but not before an hour.
TEST(Marks, OldFilesAreRemoved) {
  std::filesystem::create_directories(marks_folder());
  std::filesystem::permissions(marks_folder(), std::filesystem::perms::owner_all);
  const std::string old_file = marks_folder() + "/test." + std::to_string(getpid()) + ".old.marks";
  const std::string new_file = marks_folder() + "/test." + std::to_string(getpid()) + ".new.marks";
  const std::string other = marks_folder() + "/test." + std::to_string(getpid()) + ".other";
  traintrace::format::MarksFileHeader header = {};
  std::memcpy(header.magic, traintrace::format::kMarksMagic, sizeof header.magic);
  const auto now_ns = static_cast<uint64_t>(time(nullptr)) * 1'000'000'000;
  constexpr uint64_t kTwoHoursNs = 7'200'000'000'000;
  for (const auto& [path, alive_ns] :
       {std::pair(old_file, now_ns - kTwoHoursNs), std::pair(new_file, now_ns),
        std::pair(other, now_ns - kTwoHoursNs)}) {
    header.alive_ns = alive_ns;
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<char*>(&header), sizeof header);
  }
  const Folder folder;
  ASSERT_TRUE(preload::run(marked("finishes", folder)).exited_with(0));
  EXPECT_FALSE(std::filesystem::exists(old_file));
  EXPECT_TRUE(std::filesystem::remove(new_file));
  EXPECT_TRUE(std::filesystem::remove(other));
}

}  // namespace
