// test: timeout=500
// Jobs that do what is unusual, under each level (one includes those before it) of
// TRAINTRACE_PAYLOAD: their output and their end are those of a run without the tracer, and the
// level was at work.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <map>
#include <numeric>
#include <thread>

#include "support/gpu_states.h"
#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using namespace preload;
namespace format = traintrace::format;

#define MUST(call)   \
  do {               \
    if ((call) != 0) \
      return 1;      \
  } while (false)

// Sends a batch, reduces few and many numbers, and fetches one.
struct Job {
  Rank rank;
  float* batch = nullptr;   // pinned, as copies that are captured want it
  float* number = nullptr;  // the same

  bool make(const Arguments& arguments) {
    return rank.make(arguments.at(0), 1, 0) && make_memory();
  }
  bool make_memory() {
    return cudaMallocHost(reinterpret_cast<void**>(&batch), bytes()) == cudaSuccess &&
           cudaMallocHost(reinterpret_cast<void**>(&number), sizeof *number) == cudaSuccess;
  }
  static constexpr size_t bytes() { return Rank::kElements * sizeof(float); }

  void fill(int step) const {
    for (size_t i = 0; i < Rank::kElements; ++i) {
      batch[i] = static_cast<float>(step) + static_cast<float>(i % 7);
    }
  }
  bool enqueue(cudaStream_t on) const {
    return cudaMemcpyAsync(rank.data, batch, bytes(), cudaMemcpyHostToDevice, on) == cudaSuccess &&
           ncclAllReduce(rank.data, rank.data, 8, ncclFloat32, ncclSum, rank.comm, on) ==
               ncclSuccess &&
           rank.reduce_on(on) &&
           cudaMemcpyAsync(number, rank.data + 6, sizeof *number, cudaMemcpyDeviceToHost, on) ==
               cudaSuccess;
  }
  bool step(int number_of_step) const {
    fill(number_of_step);
    return enqueue(rank.stream) && cudaStreamSynchronize(rank.stream) == cudaSuccess;
  }
};

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ROLE(steps) {
  Job job;
  MUST(!job.make(arguments));
  for (int i = 0; i < 100'000; ++i) {
    MUST(!job.step(i));
  }
  return 0;
}

// While one thread waits for numbers, and with work in flight.
ROLE(forks) {
  Job job;
  MUST(!job.make(arguments));
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    for (int i = 0; !stop; ++i) {
      job.step(i);
    }
  });
  int sum = 0;
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (i % 2 == 0) {
        _exit(3);
      }
      execl("/bin/sh", "sh", "-c", "exit 5", nullptr);
    }
    sum += wait_for(child);
  }
  stop = true;
  busy.join();
  printf("%d %.9g\n", sum, static_cast<double>(job.batch[1] - job.batch[0]));
  return 0;
}

ROLE(captures) {
  Job job;
  MUST(!job.make(arguments));
  const cudaStreamCaptureMode modes[] = {
      cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};
  for (const cudaStreamCaptureMode mode : modes) {
    MUST(!job.step(1));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    size_t nodes = 0;
    MUST(cudaStreamBeginCapture(job.rank.stream, mode));
    MUST(!job.enqueue(job.rank.stream));
    usleep(30'000);  // what the tracer's own thread does meanwhile is no part of it
    MUST(cudaStreamEndCapture(job.rank.stream, &graph));
    MUST(cudaGraphGetNodes(graph, nullptr, &nodes));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) {
      job.fill(i);
      MUST(cudaGraphLaunch(exec, job.rank.stream));
      MUST(cudaStreamSynchronize(job.rank.stream));
      printf("%zu nodes, %.9g\n", nodes, static_cast<double>(*job.number));
    }
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
  }
  MUST(!job.step(2));
  printf("%.9g\n", static_cast<double>(*job.number));
  return 0;
}

// One after the other, each behind an event of the one before, with a host function between.
ROLE(streams) {
  Job job;
  MUST(!job.make(arguments));
  cudaStream_t high = nullptr;
  MUST(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, -1));
  const cudaStream_t all[] = {job.rank.stream, nullptr, high, cudaStreamPerThread,
                              cudaStreamLegacy};
  cudaEvent_t event = nullptr;
  MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int called = 0;
  for (int i = 0; i < 20; ++i) {
    const cudaStream_t stream = all[i % 5];
    job.fill(i);
    MUST(cudaStreamWaitEvent(stream, event, 0));
    MUST(!job.enqueue(stream));
    if (i % 2 == 0) {
      MUST(cudaStreamSynchronize(stream));
    }
    MUST(cudaLaunchHostFunc(
        stream, [](void* count) { ++*static_cast<int*>(count); }, &called));
    MUST(cudaEventRecord(event, stream));
    if (i % 2 != 0) {
      MUST(cudaEventSynchronize(event));
    }
    printf("%.9g ", static_cast<double>(*job.number));
  }
  MUST(cudaDeviceSynchronize());
  printf("%d\n", called);
  return 0;
}

// No less memory is to be had, and what is refused is the same.
ROLE(runs_out_of_memory) {
  Job job;
  MUST(!job.make(arguments));
  std::vector<void*> blocks;
  for (void* block = nullptr; cudaMalloc(&block, 1 << 20) == cudaSuccess;) {
    blocks.push_back(block);
    MUST(!job.step(static_cast<int>(blocks.size())));
  }
  printf("%zu blocks, %s, ", blocks.size(), cudaGetErrorName(cudaGetLastError()));
  MUST(!job.step(1));
  for (void* const block : blocks) {
    MUST(cudaFree(block));
  }
  MUST(!job.step(2));
  printf("%.9g\n", static_cast<double>(*job.number));
  return 0;
}

// All alive at once; each sends and fetches its own.
ROLE(two_thousand_threads) {
  constexpr size_t kThreads = 2000;
  Job job;
  MUST(!job.make(arguments));
  std::vector<float> got(kThreads);
  std::barrier here(static_cast<ptrdiff_t>(kThreads));
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  float* memory = nullptr;
  MUST(cudaMalloc(reinterpret_cast<void**>(&memory), kThreads * 512));
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<float> mine(128, static_cast<float>(i));
      float* const there = memory + 128 * i;
      cudaMemcpy(there, mine.data(), 512, cudaMemcpyHostToDevice);
      here.arrive_and_wait();
      cudaMemcpy(&got[i], there + 5, 4, cudaMemcpyDeviceToHost);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  MUST(!job.step(1));
  printf("%.9g\n", std::accumulate(got.begin(), got.end(), 0.0));
  return 0;
}

struct Case {
  const char* role;
  const char* variable = "SIMGPU_MEMORY";
  const char* value = "64M";
};
// What the driver refuses the tracer is said in one line, and nobody else's trouble.
constexpr Case kCases[] = {{"forks"},
                           {"captures"},
                           {"streams"},
                           {"runs_out_of_memory"},
                           {"two_thousand_threads"},
                           {"streams", "SIMGPU_FAIL", "cuMemHostRegister@1+=2"},
                           {"streams", "SIMGPU_FAIL", "cuModuleLoadData@1+=2"},
                           {"streams", "SIMGPU_FAIL", "cuLaunchKernel@5+=2"},
                           {"streams", "SIMGPU_FAIL", "cuStreamWriteValue64@5+=801"}};

Outcome outcome_of(const Case& what, const Folder& folder, const char* level) {
  const Folder meeting;
  Program program = self(what.role, {meeting.path()});
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {what.variable, what.value}};
  program.traced = level != nullptr;
  if (level) {
    program.environment["TRAINTRACE_PAYLOAD"] = level;
  }
  return run(program);
}

class Levels : public testing::TestWithParam<const char*> {};
constexpr std::string_view kLevels[] = {"off", "scalars", "batches", "small", "check"};
INSTANTIATE_TEST_SUITE_P(Each, Levels,
                         testing::Values("off", "scalars", "batches", "small", "check"));

// A level includes those before it.
bool includes(std::string_view level, std::string_view what) {
  return std::find(std::begin(kLevels), std::end(kLevels), what) <=
         std::find(std::begin(kLevels), std::end(kLevels), level);
}

size_t records_in(const Folder& folder, const char* name) {
  size_t count = 0;
  for (const std::string& path : folder.traces()) {
    const RawTrace trace = read_raw(path);
    EXPECT_EQ(trace.problems, std::vector<std::string>());
    count += trace.of(name, format::kMoment).size();
  }
  return count;
}

std::string without_ours(std::string errors) {
  if (errors.starts_with("traintrace: TRAINTRACE_PAYLOAD=")) {
    errors.erase(0, errors.find('\n') + 1);
  }
  return errors;
}

TEST_P(Levels, LeaveAJobAsItIs) {
  const std::string level = GetParam();
  for (const Case& what : kCases) {
    SCOPED_TRACE(std::string(what.role) + " " + what.variable + "=" + what.value);
    const Folder folder;
    static std::map<const Case*, Outcome> outcomes;  // of none of the levels
    if (!outcomes.contains(&what)) {
      outcomes[&what] = outcome_of(what, folder, nullptr);
    }
    const Outcome& plain = outcomes[&what];
    const Outcome traced = outcome_of(what, folder, GetParam());
    EXPECT_TRUE(plain.exited_with(0)) << plain.status << plain.output << plain.errors;
    EXPECT_EQ(traced.status, plain.status);
    EXPECT_EQ(traced.output, plain.output);
    EXPECT_EQ(without_ours(traced.errors), plain.errors);
    EXPECT_EQ(records_in(folder, "scalarRead") > 0, includes(level, "scalars"));
    EXPECT_EQ(records_in(folder, "batchHash") > 0, includes(level, "batches"));
    const bool is_refused = std::string(what.variable) == "SIMGPU_FAIL";
    if (!is_refused) {
      EXPECT_EQ(records_in(folder, "payloadCheck") > 0, includes(level, "small"));
    }
  }
}

TEST_P(Levels, LeaveSoundTracesWheneverTheJobIsKilled) {
  for (const int after_us : {60'000, 110'000, 200'000}) {
    const Folder meeting;
    const Folder folder;
    Program program = self("steps", {meeting.path()});
    program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_PAYLOAD", GetParam()}};
    program.kill_after_us = after_us;
    const Outcome outcome = run(program);
    EXPECT_TRUE(outcome.killed_by(SIGKILL)) << outcome.status << outcome.errors;
    for (const std::string& path : folder.traces()) {
      const RawTrace trace = read_raw(path);
      EXPECT_EQ(trace.problems, std::vector<std::string>()) << after_us;
      EXPECT_TRUE(!trace.header.ready || trace.header.exit_kind == format::kNotExited);
    }
  }
}

}  // namespace
