// test: timeout=240
// Every call is recorded once: from many threads, through whichever ring.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::RawTrace;

// Calls that return at once, each a record of its own, told apart by an argument.
void call_often(int thread, int calls) {
  for (int i = 0; i < calls; ++i) {
    cudaMemset(nullptr, thread, static_cast<size_t>(0));
  }
}

// arguments: threads, calls of each
ROLE(count) {
  const int threads = std::atoi(arguments.at(0).c_str());
  const int calls = std::atoi(arguments.at(1).c_str());
  void* memory = nullptr;
  if (cudaMalloc(&memory, 256) != cudaSuccess) {
    return 1;
  }
  std::vector<std::thread> all;
  all.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    all.emplace_back(call_often, i, calls);
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  return cudaFree(memory) == cudaSuccess ? 0 : 1;
}

RawTrace count(const char* ring_mb, int threads, int calls) {
  const Folder folder;
  preload::Program program =
      preload::self("count", {std::to_string(threads), std::to_string(calls)});
  program.environment = {{"TRAINTRACE_DIR", folder.path()},
                         {"TRAINTRACE_RING_MB", ring_mb},
                         {"TRAINTRACE_STACKS", "off"}};
  const preload::Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.output << outcome.errors;
  EXPECT_EQ(folder.traces().size(), 1u);
  return folder.traces().empty() ? RawTrace() : preload::read_raw(folder.traces().front());
}

uint64_t recorded_by_threads(const RawTrace& trace) {
  uint64_t sum = 0;
  for (const auto& thread : trace.threads) {
    sum += thread.events;
  }
  return sum;
}

TEST(Counts, EqualTheProgramsOwn) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 100'000;
  const RawTrace trace = count("128", kThreads, kCalls);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.entered("cudaMemset"), uint64_t{kThreads} * kCalls);
  EXPECT_EQ(trace.left("cudaMemset"), uint64_t{kThreads} * kCalls);
  std::vector<int> of_thread(kThreads);
  for (const auto& record : trace.of("cudaMemset", traintrace::format::kEnter)) {
    ++of_thread.at(trace.value(record, "value"));
  }
  EXPECT_EQ(of_thread, std::vector<int>(kThreads, kCalls));
  EXPECT_EQ(trace.stats, (std::map<std::string, uint64_t>()));
  EXPECT_EQ(recorded_by_threads(trace), trace.records.size());
}

TEST(Counts, WhatIsOverwrittenIsCounted) {
  const RawTrace trace = count("1", 4, 50'000);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  ASSERT_TRUE(trace.stats.contains("ring-overwritten"));
  EXPECT_EQ(trace.stats.size(), 1u);
  EXPECT_EQ(trace.records.size() + trace.stats.at("ring-overwritten"), recorded_by_threads(trace));
  EXPECT_EQ(recorded_by_threads(trace), 2u * (4 * 50'000 + 2));
  // The newest calls are there: nothing but the end of the ring's chunks was given up.
  EXPECT_EQ(trace.left("cudaFree"), 1u);
}

// More threads at once than the ring has chunks: some calls find no room, and that is counted.
ROLE(crowd) {
  constexpr int kThreads = 400;
  // Starts the recording: a thread that finds it starting would not wait for ever.
  cudaSetDevice(0);
  std::atomic<int> waiting = 0;
  std::atomic<bool> go = false;
  std::vector<std::thread> all;
  all.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    all.emplace_back([&] {
      cudaMemset(nullptr, 0, 0);
      ++waiting;
      go.wait(false);
    });
  }
  while (waiting < kThreads) {
    std::this_thread::yield();
  }
  go = true;
  go.notify_all();
  for (std::thread& thread : all) {
    thread.join();
  }
  return 0;
}

TEST(Counts, WhatFindsNoRoomIsCounted) {
  const Folder folder;
  preload::Program program = preload::self("crowd");
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_RING_MB", "1"}};
  const preload::Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  const RawTrace trace = preload::read_raw(folder.traces().at(0));
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  ASSERT_TRUE(trace.stats.contains("no-chunk"));
  EXPECT_EQ(trace.entered("cudaMemset") + trace.stats.at("no-chunk"), 400u);
  EXPECT_EQ(trace.left("cudaMemset"), trace.entered("cudaMemset"));
}

// Polling is one record, however long, until something else is called.
ROLE(poll) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreate(&stream);
  cudaEventCreate(&event);
  for (int row = 0; row < 2; ++row) {
    for (int i = 0; i < 1000; ++i) {
      cudaStreamQuery(stream);
    }
    for (int i = 0; i < 500; ++i) {
      cudaEventQuery(event);
    }
    cudaEventRecord(event, stream);
    cudaStreamSynchronize(stream);
  }
  for (int i = 0; i < 10; ++i) {
    cudaStreamQuery(stream);
  }
  return 0;
}

TEST(Counts, EqualQueriesInARowAreOneRecord) {
  const Folder folder;
  preload::Program program = preload::self("poll");
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  ASSERT_TRUE(preload::run(program).exited_with(0));
  const RawTrace trace = preload::read_raw(folder.traces().at(0));
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.entered("cudaStreamQuery"), 3u);
  EXPECT_EQ(trace.entered("cudaEventQuery"), 2u);
  for (const auto& thread : trace.threads) {
    if (thread.events) {
      EXPECT_EQ(thread.queries, 9u);
      EXPECT_EQ(trace.calls.at(thread.last_call).name, "cudaStreamQuery");
      EXPECT_GE(thread.last_query_ticks, thread.started_ticks);
    }
  }
}

// A watchdog asks about everything that is under way, again and again.
// arguments: events, rounds
ROLE(poll_in_turn) {
  std::vector<cudaEvent_t> events(std::stoul(arguments.at(0)));
  for (cudaEvent_t& event : events) {
    cudaEventCreate(&event);
  }
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  ncclUniqueId id;
  ncclComm_t communicator = nullptr;
  if (ncclGetUniqueId(&id) != ncclSuccess ||
      ncclCommInitRank(&communicator, 1, id, 0) != ncclSuccess) {
    return 1;
  }
  const auto ask_all = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (cudaEvent_t event : events) {
        cudaEventQuery(event);
      }
      cudaStreamQuery(stream);
      ncclResult_t error = ncclSuccess;
      ncclCommGetAsyncError(communicator, &error);
    }
  };
  ask_all(std::stoi(arguments.at(1)));
  cudaStreamSynchronize(stream);
  ask_all(5);
  return 0;
}

RawTrace poll_in_turn(uint64_t events, uint64_t rounds) {
  const Folder folder;
  preload::Program program =
      preload::self("poll_in_turn", {std::to_string(events), std::to_string(rounds)});
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  EXPECT_TRUE(preload::run(program).exited_with(0));
  return preload::read_raw(folder.traces().at(0));
}

TEST(Counts, QueriesOfSeveralObjectsInTurnAreOneRecordEach) {
  constexpr uint64_t kRounds = 1000;
  for (const uint64_t events : {1, 2, 8}) {
    const RawTrace trace = poll_in_turn(events, kRounds);
    EXPECT_EQ(trace.problems, std::vector<std::string>());
    EXPECT_EQ(trace.entered("cudaEventQuery"), 2 * events);
    EXPECT_EQ(trace.entered("cudaStreamQuery"), 2u);
    EXPECT_EQ(trace.entered("ncclCommGetAsyncError"), 2u);
    for (const auto& thread : trace.threads) {
      if (thread.events) {
        EXPECT_EQ(thread.queries, 4 * (events + 2));
        EXPECT_EQ(thread.folded, (kRounds - 1 + 4) * (events + 2));
      }
    }
  }
}

// More than are remembered: what is no record is counted.
TEST(Counts, QueriesOfVeryManyObjectsAreRecordsOrCounted) {
  constexpr uint64_t kEvents = 2000;
  const RawTrace trace = poll_in_turn(kEvents, 10);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  uint64_t folded = 0;
  for (const auto& thread : trace.threads) {
    folded += thread.folded;
  }
  EXPECT_EQ(trace.entered("cudaEventQuery") + trace.entered("cudaStreamQuery") +
                trace.entered("ncclCommGetAsyncError") + folded,
            15 * (kEvents + 2));
}

// Of each object it is a record that it is done, whatever is asked in between.
ROLE(poll_two_until_done) {
  std::atomic<bool> go = false;
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams) {
    cudaStreamCreate(&stream);
    cudaLaunchHostFunc(
        stream, [](void* wait) { static_cast<std::atomic<bool>*>(wait)->wait(false); }, &go);
  }
  for (int i = 0; i < 1000; ++i) {
    for (cudaStream_t stream : streams) {
      if (cudaStreamQuery(stream) != cudaErrorNotReady) {
        return 1;
      }
    }
  }
  go = true;
  go.notify_all();
  for (int done = 0; done < 2;) {
    done =
        (cudaStreamQuery(streams[0]) == cudaSuccess) + (cudaStreamQuery(streams[1]) == cudaSuccess);
  }
  return 0;
}

TEST(Counts, ThatPollingOfEachIsOverIsARecord) {
  const Folder folder;
  preload::Program program = preload::self("poll_two_until_done");
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  ASSERT_TRUE(preload::run(program).exited_with(0));
  const RawTrace trace = preload::read_raw(folder.traces().at(0));
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  std::map<uint64_t, std::vector<int>> results;
  const auto enters = trace.of("cudaStreamQuery", traintrace::format::kEnter);
  const auto leaves = trace.of("cudaStreamQuery", traintrace::format::kLeave);
  ASSERT_EQ(enters.size(), leaves.size());
  for (size_t i = 0; i < enters.size(); ++i) {
    results[trace.value(enters[i], "stream")].push_back(leaves[i].result());
  }
  ASSERT_EQ(results.size(), 2u);
  for (const auto& [stream, of_stream] : results) {
    EXPECT_EQ(of_stream, (std::vector<int>{cudaErrorNotReady, cudaSuccess}));
  }
}

// Polling until it is done is two records: the first answer, and that it is done.
ROLE(poll_until_done) {
  std::atomic<bool> go = false;
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaLaunchHostFunc(
      stream, [](void* wait) { static_cast<std::atomic<bool>*>(wait)->wait(false); }, &go);
  for (int i = 0; i < 1000; ++i) {
    if (cudaStreamQuery(stream) != cudaErrorNotReady) {
      return 1;
    }
  }
  go = true;
  go.notify_all();
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    std::this_thread::yield();
  }
  for (int i = 0; i < 1000; ++i) {
    cudaStreamQuery(stream);
  }
  return 0;
}

TEST(Counts, ThatPollingIsOverIsARecord) {
  const Folder folder;
  preload::Program program = preload::self("poll_until_done");
  program.environment = {{"TRAINTRACE_DIR", folder.path()}};
  ASSERT_TRUE(preload::run(program).exited_with(0));
  const RawTrace trace = preload::read_raw(folder.traces().at(0));
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  std::vector<int> results;
  for (const auto& record : trace.of("cudaStreamQuery", traintrace::format::kLeave)) {
    results.push_back(record.result());
  }
  EXPECT_EQ(results, (std::vector<int>{cudaErrorNotReady, cudaSuccess}));
  EXPECT_EQ(trace.entered("cudaStreamQuery"), 2u);
}

}  // namespace
