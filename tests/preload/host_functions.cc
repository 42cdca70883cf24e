// Functions on streams, by every door: called with what they were given, each as often as without
// the tracer, and seen to be entered and left.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
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

RawTrace trace_of(const std::string& role) {
  const Folder folder;
  preload::Program program = preload::self(role);
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_RING_MB", "1"}};
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.output << outcome.errors;
  program.traced = false;
  EXPECT_TRUE(preload::run(program).exited_with(0)) << "without the tracer";
  const auto traces = folder.traces();
  RawTrace trace = traces.size() == 1 ? preload::read_raw(traces[0]) : RawTrace{};
  EXPECT_EQ(traces.size(), 1u);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  return trace;
}

std::atomic<int> g_calls{0};
cudaStream_t g_stream = nullptr;

void count_call(void* data) {
  g_calls += *static_cast<int*>(data);
}
void note_status(cudaStream_t stream, cudaError_t status, void* data) {
  g_calls += stream == g_stream && status == cudaSuccess ? *static_cast<int*>(data) : 0;
}
void note_driver_status(CUstream stream, CUresult status, void* data) {
  note_status(stream, static_cast<cudaError_t>(status), data);
}

ROLE(every_door) {
  int one = 1;
  int ten = 10;
  int hundred = 100;
  int thousand = 1000;
  cudaStreamCreateWithFlags(&g_stream, cudaStreamNonBlocking);
  cudaLaunchHostFunc(g_stream, count_call, &one);
  cudaStreamAddCallback(g_stream, note_status, &ten, 0);
  cuLaunchHostFunc(g_stream, count_call, &hundred);
  cuStreamAddCallback(g_stream, note_driver_status, &thousand, 0);
  cudaStreamSynchronize(g_stream);
  return g_calls == 1111 ? 0 : 1;
}

TEST(HostFunctions, OfTheRuntimeAndOfTheDriver) {
  const RawTrace trace = trace_of("every_door");
  ASSERT_EQ(trace.host_functions.size(), 4u);
  for (const format::HostFunction& function : trace.host_functions) {
    EXPECT_GE(function.entered_ticks, function.enqueued_ticks);
    EXPECT_GE(function.left_ticks, function.entered_ticks);
    EXPECT_NE(function.tid, trace.header.pid);
    EXPECT_NE(function.stack, 0u);
    EXPECT_NE(function.stream, 0u);
  }
  // The record has the job's function, not ours.
  const auto launches = trace.of("cudaLaunchHostFunc", format::kEnter);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(trace.value(launches[0], "function"), trace.host_functions[0].function);
}

// What is captured runs with each launch of the graph.
ROLE(in_a_graph) {
  int one = 1;
  int hundred = 100;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStreamCreateWithFlags(&g_stream, cudaStreamNonBlocking);
  cudaStreamBeginCapture(g_stream, cudaStreamCaptureModeGlobal);
  cudaLaunchHostFunc(g_stream, count_call, &one);
  cudaStreamEndCapture(g_stream, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  for (int i = 0; i < 3; ++i) {
    cudaGraphLaunch(exec, g_stream);
    cudaLaunchHostFunc(g_stream, count_call, &hundred);
  }
  cudaStreamSynchronize(g_stream);
  return g_calls == 303 ? 0 : 1;
}

TEST(HostFunctions, InAGraphAreCalledWithEachLaunch) {
  const RawTrace trace = trace_of("in_a_graph");
  EXPECT_EQ(trace.host_functions.size(), 3u);
  EXPECT_EQ(trace.left("cudaLaunchHostFunc"), 4u);
}

// More at a time than are watched, of several threads, each with data of its own.
ROLE(many) {
  constexpr int kThreads = 4;
  constexpr int kEach = 400;
  static int numbers[kThreads * kEach];
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      cudaLaunchHostFunc(
          stream, [](void*) { usleep(20'000); }, nullptr);
      for (int i = t * kEach; i < (t + 1) * kEach; ++i) {
        cudaLaunchHostFunc(
            stream, [](void* data) { ++*static_cast<int*>(data); }, &numbers[i]);
      }
      cudaStreamSynchronize(stream);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  int wrong = 0;
  for (const int number : numbers) {
    wrong += number != 1;
  }
  return wrong ? 1 : 0;
}

TEST(HostFunctions, MoreThanCanBeWatchedAreAllCalledOnce) {
  const RawTrace trace = trace_of("many");
  EXPECT_EQ(trace.left("cudaLaunchHostFunc"), 1604u);
  EXPECT_LE(trace.host_functions.size(), 512u);
  EXPECT_GT(trace.host_functions.size(), 256u);
}

ROLE(refused) {
  int one = 1;
  cudaStreamCreate(&g_stream);
  for (int i = 0; i < 2000; ++i) {
    if (cudaLaunchHostFunc(g_stream, nullptr, &one) == cudaSuccess ||
        cudaStreamAddCallback(g_stream, note_status, &one, 1) == cudaSuccess) {
      return 1;
    }
  }
  cudaLaunchHostFunc(g_stream, count_call, &one);
  cudaStreamSynchronize(g_stream);
  return g_calls == 1 ? 0 : 2;
}

TEST(HostFunctions, RefusedOnesLeaveNothingBehind) {
  EXPECT_EQ(trace_of("refused").host_functions.size(), 1u);
}

// It never returns, and the process ends as it may.
ROLE(stuck) {
  cudaStreamCreate(&g_stream);
  cudaLaunchHostFunc(
      g_stream, [](void*) { usleep(1); }, nullptr);
  cudaLaunchHostFunc(
      g_stream,
      [](void*) {
        g_calls = 1;
        while (true) {
          pause();
        }
      },
      nullptr);
  cudaLaunchHostFunc(
      g_stream, [](void*) {}, nullptr);
  while (g_calls == 0) {
    usleep(1000);
  }
  _exit(0);
}

TEST(HostFunctions, OneThatNeverReturnsIsSeen) {
  const RawTrace trace = trace_of("stuck");
  int left = 0;
  int inside = 0;
  int waiting = 0;
  for (const format::HostFunction& function : trace.host_functions) {
    left += function.left_ticks != 0;
    inside += function.entered_ticks != 0 && function.left_ticks == 0;
    waiting += function.entered_ticks == 0;
  }
  EXPECT_EQ(left, 1);
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(waiting, 1);
}

}  // namespace
