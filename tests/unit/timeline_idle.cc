// uses: analyzer/timeline/spans.cc analyzer/timeline/partition.cc analyzer/timeline/idle.cc
// uses: analyzer/timeline/collectives/collective_note.cc analyzer/timeline/predecessors.cc
#include "analyzer/timeline/idle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "analyzer/timeline/partition.h"

namespace traintrace {
namespace {

constexpr int64_t kUs = 1000;

// Two kernels, [0, 100) and [200, 300) us, the second launched by call 2 at `launch_us`; what else
// the thread did.
struct Gap {
  int64_t launch_us = 150;
  std::vector<HostCall> calls = {};
  const char* launch = "cudaLaunchKernel";
  uint64_t second = 2;
  int64_t call_us = 5;      // what the launch takes
  int64_t second_us = 200;  // when the second begins
  bool first_of_its_name = false;

  std::map<std::string, int64_t> us() const {
    Timeline timeline;
    timeline.names = {launch, "kernel"};
    timeline.threads = {"1", "2"};
    timeline.calls = calls;
    timeline.calls.push_back(
        {launch_us * kUs, (launch_us + call_us) * kUs, 2, 0, 0, HostCallKind::kOther});
    timeline.work = {{0, 100 * kUs, second == 2 ? 2 : 1U, 0, 7, 0, WorkKind::kCompute},
                     {second_us * kUs, (second_us + 100) * kUs, second, first_of_its_name ? 1U : 0U,
                      7, 0, WorkKind::kCompute}};
    const IdleTimes idle = idle_by_cause(timeline, timeline.work);
    std::map<std::string, int64_t> result;
    for (size_t i = 0; i < kIdleCauses; ++i) {
      if (idle[i] != 0) {
        result[kIdleCauseNames[i]] = idle[i] / kUs;
      }
    }
    return result;
  }
};
using Us = std::map<std::string, int64_t>;

HostCall call(int64_t begin_us, int64_t end_us, HostCallKind kind, uint32_t thread = 0) {
  return {begin_us * kUs, end_us * kUs, 0, 0, thread, kind};
}

TEST(IdleByCause, HostIsLate) {
  EXPECT_EQ(Gap{}.us(), (Us{{"host-bound", 50}, {"launch-call", 5}, {"launch-latency", 45}}));
}

TEST(IdleByCause, SynchronisationLeftTheQueueEmpty) {
  const Gap gap{.calls = {call(20, 105, HostCallKind::kBlocking)}};
  EXPECT_EQ(gap.us(), (Us{{"sync-induced", 50}, {"launch-call", 5}, {"launch-latency", 45}}));
}

TEST(IdleByCause, SynchronisationOfAnotherThreadOrBeforeTheGapIsNoReason) {
  const Gap gap{
      .calls = {call(20, 99, HostCallKind::kBlocking), call(20, 120, HostCallKind::kBlocking, 1)}};
  EXPECT_EQ(gap.us(), (Us{{"host-bound", 50}, {"launch-call", 5}, {"launch-latency", 45}}));
}

TEST(IdleByCause, LoaderComesBeforeSynchronisation) {
  const Gap gap{
      .calls = {call(20, 105, HostCallKind::kBlocking), call(110, 140, HostCallKind::kLoader)}};
  EXPECT_EQ(gap.us(), (Us{{"data-starvation", 30},
                          {"sync-induced", 20},
                          {"launch-call", 5},
                          {"launch-latency", 45}}));
}

// The allocator 10 us in the gap, and 10 before it.
TEST(IdleByCause, AllocatorAndPeersTakeWhatTheyTook) {
  const Gap gap{
      .calls = {call(90, 110, HostCallKind::kAllocator), call(105, 120, HostCallKind::kPeerWait)}};
  EXPECT_EQ(gap.us(), (Us{{"allocator", 20},
                          {"host-peer-wait", 10},
                          {"host-bound", 20},
                          {"launch-call", 5},
                          {"launch-latency", 45}}));
}

// As cudaFree does, which waits for the GPU: with nothing queued, that much is its.
TEST(IdleByCause, AnAllocatorThatLetsTheGpuRunDry) {
  const Gap gap{.calls = {call(20, 105, HostCallKind::kAllocator)}};
  EXPECT_EQ(gap.us(), (Us{{"allocator", 50}, {"launch-call", 5}, {"launch-latency", 45}}));
  const Gap brief{.calls = {call(80, 105, HostCallKind::kAllocator)}};
  EXPECT_EQ(
      brief.us(),
      (Us{{"allocator", 25}, {"host-bound", 25}, {"launch-call", 5}, {"launch-latency", 45}}));
}

TEST(IdleByCause, AnAllocatorThatReturnedBeforeOrWasCalledLaterDidNot) {
  const Gap before{.calls = {call(20, 99, HostCallKind::kAllocator)}};
  EXPECT_EQ(before.us(), (Us{{"host-bound", 50}, {"launch-call", 5}, {"launch-latency", 45}}));
  const Gap later{.calls = {call(110, 115, HostCallKind::kAllocator)}};
  EXPECT_EQ(later.us(),
            (Us{{"allocator", 5}, {"host-bound", 45}, {"launch-call", 5}, {"launch-latency", 45}}));
}

TEST(IdleByCause, AnAllocatorBeforeACallThatWaitsIsNotTheReason) {
  const Gap gap{
      .calls = {call(20, 60, HostCallKind::kAllocator), call(61, 110, HostCallKind::kBlocking)}};
  EXPECT_EQ(gap.us(), (Us{{"sync-induced", 50}, {"launch-call", 5}, {"launch-latency", 45}}));
}

// What is called once the GPU has run dry finds nothing to wait for.
TEST(IdleByCause, ACallThatFindsTheQueueEmptyTakesNoBlameFromWhatEmptiedIt) {
  const Gap gap{
      .calls = {call(20, 130, HostCallKind::kAllocator), call(131, 132, HostCallKind::kBlocking)}};
  EXPECT_EQ(gap.us(), (Us{{"allocator", 50}, {"launch-call", 5}, {"launch-latency", 45}}));
  const Gap alone{.calls = {call(131, 132, HostCallKind::kBlocking)}};
  EXPECT_EQ(alone.us(), (Us{{"sync-induced", 50}, {"launch-call", 5}, {"launch-latency", 45}}));
}

// The GPU runs dry in the first of two calls; how long of the gap is charged to which of them.
std::map<uint32_t, int64_t> us_by_call(int64_t second_us) {
  Timeline timeline;
  timeline.names = {"cudaLaunchKernel", "kernel", "first", "second"};
  timeline.threads = {"1"};
  timeline.calls = {call(20, 105, HostCallKind::kBlocking),
                    call(second_us, second_us + 1, HostCallKind::kBlocking),
                    {190 * kUs, 200 * kUs, 2, 0, 0, HostCallKind::kOther}};
  timeline.calls[0].name = 2;
  timeline.calls[1].name = 3;
  timeline.work = {{0, 100 * kUs, 1, 1, 7, 0, WorkKind::kCompute},
                   {200 * kUs, 300 * kUs, 2, 1, 7, 0, WorkKind::kCompute}};
  std::map<uint32_t, int64_t> us;
  visit_idle(timeline, timeline.work, [&](const IdleCharge& charge) {
    if (charge.cause == IdleCause::kSyncInduced) {
      us[charge.call->name] += charge.ns / kUs;
    }
  });
  return us;
}

TEST(IdleByCause, TimeBeforeACallIsNotItsUnlessBothAreOneWait) {
  EXPECT_EQ(us_by_call(170), (std::map<uint32_t, int64_t>{{2, 70}, {3, 20}}));
  EXPECT_EQ(us_by_call(110), (std::map<uint32_t, int64_t>{{3, 90}}));
}

// One short kernel was launched behind it, and the host is as late for the next one.
TEST(IdleByCause, WhatAnAllocatorTookIsOwedUntilSomethingElseWaits) {
  for (const bool waits : {false, true}) {
    Timeline timeline;
    timeline.names = {"cudaLaunchKernel", "kernel"};
    timeline.threads = {"1"};
    timeline.calls = {call(20, 101, HostCallKind::kAllocator),
                      {102 * kUs, 103 * kUs, 2, 0, 0, HostCallKind::kOther},
                      {150 * kUs, 151 * kUs, 3, 0, 0, HostCallKind::kOther},
                      {300 * kUs, 301 * kUs, 4, 0, 0, HostCallKind::kOther}};
    if (waits) {
      timeline.calls.insert(timeline.calls.begin() + 2, call(104, 105, HostCallKind::kBlocking));
    }
    timeline.work = {{0, 100 * kUs, 1, 1, 7, 0, WorkKind::kCompute},
                     {103 * kUs, 110 * kUs, 2, 1, 7, 0, WorkKind::kCompute},
                     {151 * kUs, 160 * kUs, 3, 1, 7, 0, WorkKind::kCompute},
                     {301 * kUs, 310 * kUs, 4, 1, 7, 0, WorkKind::kCompute}};
    const IdleTimes idle = idle_by_cause(timeline, timeline.work);
    const auto us = [&](IdleCause cause) { return idle[static_cast<size_t>(cause)] / kUs; };
    // Of the 80 us before the GPU ran dry 1 counts before the first launch, beside 1 in the gap, 40
    // before the second, and the last 39 of 140.
    EXPECT_EQ(us(IdleCause::kAllocator), waits ? 2 : 81);
    EXPECT_EQ(us(IdleCause::kHostBound), waits ? 180 : 101);
  }
}

TEST(IdleByCause, WhatWasLaunchedBeforeWaitsForTheGpu) {
  EXPECT_EQ(Gap{.launch_us = 90}.us(), (Us{{"dependency", 100}}));
}

TEST(IdleByCause, InsideTheLaunch) {
  const Gap gap{.launch_us = 150, .call_us = 800, .second_us = 955};
  EXPECT_EQ(gap.us(), (Us{{"host-bound", 50}, {"launch-call", 800}, {"launch-latency", 5}}));
  Gap first = gap;
  first.first_of_its_name = true;
  EXPECT_EQ(first.us(), (Us{{"host-bound", 50}, {"lazy-load", 800}, {"launch-latency", 5}}));
  first.call_us = 90;
  first.second_us = 245;
  EXPECT_EQ(first.us(), (Us{{"host-bound", 50}, {"launch-call", 90}, {"launch-latency", 5}}));
}

TEST(IdleByCause, InsideALaunchThatBeganBeforeTheGap) {
  const Gap gap{.launch_us = 90, .call_us = 800, .second_us = 895, .first_of_its_name = true};
  EXPECT_EQ(gap.us(), (Us{{"lazy-load", 790}, {"launch-latency", 5}}));
  const Gap brief{.launch_us = 90, .call_us = 50, .second_us = 895, .first_of_its_name = true};
  EXPECT_EQ(brief.us(), (Us{{"launch-call", 40}, {"launch-latency", 100}, {"dependency", 655}}));
}

// A decode of which each launch returned after 5 us, and the work began 463 ms later.
TEST(IdleByCause, LongAfterTheLaunchSomethingElseIsWaitedFor) {
  const Gap gap{.launch_us = 150, .second_us = 463'155};
  EXPECT_EQ(gap.us(), (Us{{"host-bound", 50},
                          {"launch-call", 5},
                          {"launch-latency", 100},
                          {"dependency", 462'900}}));
}

TEST(IdleByCause, WithinAReplay) {
  EXPECT_EQ((Gap{.launch_us = -20, .launch = "cudaGraphLaunch_v10000"}.us()),
            (Us{{"graph-internal", 100}}));
}

TEST(IdleByCause, WithoutRecordOfTheLaunch) {
  EXPECT_EQ((Gap{.second = 9}.us()), (Us{{"unattributed", 100}}));
}

TEST(IdleByCause, AddsUpWhateverTheTrace) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    Timeline timeline;
    timeline.names = {"cudaLaunchKernel", "cudaGraphLaunch"};
    timeline.threads = {"1", "2"};
    for (int i = 0; i < 20; ++i) {
      const int64_t start = static_cast<int64_t>(random() % 100'000);
      timeline.calls.push_back({start, start + static_cast<int64_t>(random() % 9'000),
                                random() % 12, static_cast<uint32_t>(random() % 2),
                                static_cast<uint32_t>(random() % 2),
                                static_cast<HostCallKind>(random() % 5)});
      const int64_t began = static_cast<int64_t>(random() % 100'000);
      timeline.work.push_back({began, began + static_cast<int64_t>(random() % 4'000), random() % 12,
                               0, 7, 0, static_cast<WorkKind>(random() % 3)});
    }
    std::sort(timeline.work.begin(), timeline.work.end(),
              [](const GpuWork& a, const GpuWork& b) { return a.start_ns < b.start_ns; });
    const IdleTimes idle = idle_by_cause(timeline, timeline.work);
    EXPECT_EQ(std::accumulate(idle.begin(), idle.end(), int64_t{0}),
              partition_of(timeline.work).idle_ns);
    EXPECT_GE(*std::min_element(idle.begin(), idle.end()), 0);
  }
}

}  // namespace
}  // namespace traintrace
