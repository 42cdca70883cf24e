// uses: analyzer/timeline/blocking.cc analyzer/timeline/collectives/collective_note.cc
// uses: analyzer/timeline/event_waits.cc analyzer/timeline/idle.cc analyzer/timeline/partition.cc
// uses: analyzer/timeline/predecessors.cc analyzer/timeline/spans.cc
#include "analyzer/timeline/event_waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "analyzer/timeline/blocking.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/partition.h"

namespace traintrace {
namespace {

constexpr int64_t kUs = 1000;
using Us = std::map<std::string, int64_t>;
using Stream = EventWaits::Stream;

const Stream kLegacy = EventWaits::stream_of(0, 0, 1);
const Stream kMain = {100};
const Stream kSide = {200};
const Stream kThird = {300};

using Waits = std::vector<WorkWait>;

TEST(EventWaits, OfWhatWasLaunchedBeforeTheRecord) {
  EventWaits waits;
  waits.launched(kSide, 1);
  waits.launched(kSide, 2);
  waits.recorded(7, kSide);
  waits.launched(kSide, 3);
  waits.waits_for(kMain, 7);
  waits.launched(kMain, 4);
  waits.launched(kMain, 5);
  EXPECT_EQ(waits.take(), (Waits{{4, 2}}));
}

// What a host that waits for the event waits for.
TEST(EventWaits, KnowWhatIsDoneWhenAnEventIs) {
  EventWaits waits;
  waits.event_created(8);
  waits.recorded_elsewhere(9);
  waits.launched(kSide, 1);
  waits.recorded(6, kSide);
  waits.launched(kMain, 2);
  waits.waits_for(kMain, 6);
  waits.recorded(7, kMain);
  waits.launched(kMain, 3);
  EXPECT_EQ(waits.awaited_by(6), (std::vector<uint64_t>{1}));
  EXPECT_EQ(waits.awaited_by(7), (std::vector<uint64_t>{2, 1}));
  EXPECT_TRUE(waits.awaited_by(8).empty()) << "never recorded";
  EXPECT_TRUE(waits.awaited_by(9).empty()) << "by another process";
}

TEST(EventWaits, AreHandedOnByStreamsWithoutWork) {
  EventWaits waits;
  waits.launched(kThird, 1);
  waits.recorded(7, kThird);
  waits.waits_for(kSide, 7);
  waits.recorded(8, kSide);
  waits.waits_for(kMain, 8);
  waits.launched(kMain, 2);
  EXPECT_EQ(waits.take(), (Waits{{2, 1}}));
}

TEST(EventWaits, AreSaidOnce) {
  EventWaits waits;
  waits.launched(kSide, 1);
  waits.recorded(7, kSide);
  for (uint64_t work = 2; work < 5; ++work) {
    waits.waits_for(kMain, 7);
    waits.launched(kMain, work);
  }
  EXPECT_EQ(waits.take(), (Waits{{2, 1}}));
}

TEST(EventWaits, AnEventThatWasNeverRecordedHoldsNothingUpAndAForeignOneIsUnknown) {
  EventWaits waits;
  waits.event_created(7);
  waits.waits_for(kMain, 7);
  waits.launched(kMain, 1);
  waits.recorded_elsewhere(8);
  waits.waits_for(kMain, 8);
  waits.launched(kMain, 2);
  waits.waits_for(kMain, 9);
  waits.launched(kMain, 3);
  EXPECT_EQ(waits.take(), (Waits{{2, WorkWait::kUnknown}, {3, WorkWait::kUnknown}}));
}

TEST(EventWaits, TheHostAndPeersHoldUpWhatComesNext) {
  EventWaits waits;
  waits.waits_for_other(kSide, WorkWait::kUnknown);
  waits.recorded(7, kSide);
  waits.waits_for(kMain, 7);
  waits.launched(kMain, 1);
  waits.waits_for_other(kMain, WorkWait::kPeers);
  waits.launched(kMain, 2);
  waits.launched(kMain, 3);
  EXPECT_EQ(waits.take(), (Waits{{1, WorkWait::kUnknown}, {2, WorkWait::kPeers}}));
}

TEST(EventWaits, CapturedOnesOrderNothingNow) {
  EventWaits waits;
  waits.launched(kSide, 1);
  waits.capture_begins(kSide);
  waits.recorded(7, kSide);
  waits.waits_for(kMain, 7);
  waits.waits_for_other(kMain, WorkWait::kUnknown);
  waits.capture_ends(kSide);
  waits.launched(kMain, 2);
  EXPECT_EQ(waits.take(), Waits{});
}

TEST(EventWaits, TheLegacyStreamWaitsForBlockingOnesAndTheyForIt) {
  EventWaits waits;
  waits.created(kMain, true, 0);
  waits.created(kSide, false, 0);
  waits.created(kThird, true, 1);
  waits.launched(kMain, 1);
  waits.launched(kSide, 2);
  waits.launched(kThird, 3);
  waits.launched(kLegacy, 4);
  waits.launched(kSide, 5);
  waits.launched(kMain, 6);
  EXPECT_EQ(waits.take(), (Waits{{4, 1, true}, {6, 4, true}}));
}

// Then it would wait without the legacy stream as well, whichever comes first.
TEST(EventWaits, WhatAnEventOrdersIsNotByTheLegacyStream) {
  EventWaits waits;
  waits.created(kMain, true, 0);
  waits.event_created(7);
  waits.launched(kLegacy, 1);
  waits.recorded(7, kLegacy);
  waits.launched(kMain, 2);
  waits.waits_for(kMain, 7);
  waits.launched(kMain, 3);
  waits.launched(kLegacy, 4);
  waits.recorded(7, kLegacy);
  waits.waits_for(kMain, 7);
  waits.launched(kMain, 5);
  EXPECT_EQ(waits.take(), (Waits{{2, 1, true}, {3, 1}, {4, 3, true}, {5, 3}, {5, 4}}));
}

TEST(EventWaits, AGraphHasStreamsOfItsOwn) {
  EventWaits waits;
  waits.launched(kMain, 1);
  waits.launched(kMain, 2, true);
  waits.launched(kMain, 3);
  waits.launched(kMain, 4);
  EXPECT_EQ(waits.take(), (Waits{{2, 1}, {3, 2}}));
}

// GPU 0 computes [0, 100) us and again from 200 us on, launched before by call 2; what else ran,
// and what the second kernel waits for.
struct Gap {
  std::vector<GpuWork> others = {};
  std::vector<WorkWait> waits = {};
  std::vector<CollectiveNote> notes = {};
  bool knows = true;
  int64_t second_us = 200;

  Timeline timeline() const {
    Timeline timeline;
    timeline.names = {"cudaLaunchKernel"};
    timeline.threads = {"1"};
    for (uint64_t i = 1; i <= 9; ++i) {
      timeline.calls.push_back({0, 0, i, 0, 0, HostCallKind::kOther});
    }
    timeline.work = {{0, 100 * kUs, 1, 0, 7, 0, WorkKind::kCompute},
                     {second_us * kUs, 300 * kUs, 2, 0, 7, 0, WorkKind::kCompute}};
    timeline.work.insert(timeline.work.end(), others.begin(), others.end());
    std::sort(timeline.work.begin(), timeline.work.end(),
              [](const GpuWork& a, const GpuWork& b) { return a.start_ns < b.start_ns; });
    timeline.waits = waits;
    timeline.knows_waits = knows;
    timeline.collectives = notes;
    return timeline;
  }
  Us us() const {
    const Timeline all = timeline();
    std::vector<GpuWork> own;
    std::copy_if(all.work.begin(), all.work.end(), std::back_inserter(own),
                 [](const GpuWork& work) { return work.device == 0; });
    const IdleTimes idle = idle_by_cause(all, own);
    EXPECT_EQ(std::accumulate(idle.begin(), idle.end(), int64_t{0}), partition_of(own).idle_ns);
    Us result;
    for (size_t i = 0; i < kIdleCauses; ++i) {
      if (idle[i] != 0) {
        result[kIdleCauseNames[i]] = idle[i] / kUs;
      }
    }
    return result;
  }
};

// [begin, end) us.
GpuWork work(int64_t begin, int64_t end, uint64_t correlation, WorkKind kind, int device,
             int stream = 20) {
  return {begin * kUs, end * kUs, correlation, 0, stream, device, kind};
}

TEST(IdleOfTheGpu, ForACollectiveOfAnotherGpu) {
  const Gap gap{.others = {work(50, 190, 3, WorkKind::kCommunication, 1)}, .waits = {{2, 3}}};
  EXPECT_EQ(gap.us(), (Us{{"communication-wait", 100}}));
}

TEST(IdleOfTheGpu, ForARankThatCameLateToIt) {
  Gap gap{.others = {work(50, 190, 3, WorkKind::kCommunication, 1)},
          .waits = {{2, 3}},
          .notes = {{.correlation = 3}}};
  gap.notes[0].last_came_ns = 160 * kUs;
  EXPECT_EQ(gap.us(), (Us{{"communication-wait", 40}, {"straggler-wait", 60}}));
}

TEST(IdleOfTheGpu, ForACopyOfAnotherGpuAndWhatThatWaitedFor) {
  const Gap gap{
      .others = {work(20, 150, 3, WorkKind::kCompute, 1), work(150, 200, 4, WorkKind::kMemory, 1)},
      .waits = {{2, 4}}};
  EXPECT_EQ(gap.us(), (Us{{"copy-wait", 50}, {"dependency", 50}}));
}

TEST(IdleOfTheGpu, ForAKernelOfAnotherGpuIsADependency) {
  const Gap gap{.others = {work(50, 200, 3, WorkKind::kCompute, 1)}, .waits = {{2, 3}}};
  EXPECT_EQ(gap.us(), (Us{{"dependency", 100}}));
}

TEST(IdleOfTheGpu, BehindACollectiveWhoseEndBeganTheGap) {
  const Gap gap{.others = {work(50, 190, 3, WorkKind::kCommunication, 0)}, .waits = {{2, 3}}};
  EXPECT_EQ(gap.us(), (Us{{"communication-wait", 10}}));
}

TEST(IdleOfTheGpu, IsNotForWhatHadEndedBefore) {
  const Gap gap{.others = {work(10, 90, 3, WorkKind::kCommunication, 0)}, .waits = {{2, 3}}};
  EXPECT_EQ(gap.us(), (Us{{"dependency", 100}}));
  // Something else ran on when the collective had ended.
  const Gap later{.others = {work(10, 150, 3, WorkKind::kCommunication, 0),
                             work(50, 180, 4, WorkKind::kCompute, 0, 21)},
                  .waits = {{2, 3}}};
  EXPECT_EQ(later.us(), (Us{{"dependency", 20}}));
}

TEST(IdleOfTheGpu, IsNotExplainedWhereAnythingElseMayBeTheReason) {
  const std::vector<GpuWork> others = {work(50, 190, 3, WorkKind::kCommunication, 1)};
  EXPECT_EQ((Gap{.others = others, .waits = {{2, WorkWait::kUnknown}, {2, 3}}}.us()),
            (Us{{"dependency", 100}}));
  EXPECT_EQ((Gap{.others = others, .waits = {{2, 3}, {2, 4}}}.us()), (Us{{"dependency", 100}}))
      << "the record of 4 is not there";
  EXPECT_EQ((Gap{.others = others, .waits = {{2, 3}}, .knows = false}.us()),
            (Us{{"dependency", 100}}));
}

TEST(IdleOfTheGpu, BetweenKernelsOfOneStream) {
  EXPECT_EQ((Gap{.second_us = 105}.us()), (Us{{"kernel-gap", 5}}));
  EXPECT_EQ(Gap{}.us(), (Us{{"dependency", 100}}));
}

TEST(IdleOfTheGpu, ForOtherRanksWithoutAKernelOfNccl) {
  EXPECT_EQ((Gap{.waits = {{2, WorkWait::kPeers}}}.us()), (Us{{"communication-wait", 100}}));
}

int64_t blocking_us(const Gap& gap) {
  const Timeline timeline = gap.timeline();
  const std::optional<Spans> found = blocking_communication(timeline, timeline.work);
  return found ? length_ns(*found) / kUs : -1;
}

TEST(BlockingCommunication, IsWhatTheNextComputationWaitsFor) {
  const GpuWork collective = work(50, 190, 3, WorkKind::kCommunication, 0);
  EXPECT_EQ(blocking_us({.others = {collective}, .waits = {{2, 3}}}), 90);
  EXPECT_EQ(blocking_us({.others = {collective}}), 0) << "it waits for the host, say";
  EXPECT_EQ(blocking_us({.others = {collective}, .waits = {{2, 3}}, .knows = false}), -1);
}

TEST(BlockingCommunication, BeginsWithTheLaunch) {
  Timeline timeline =
      Gap{.others = {work(50, 190, 3, WorkKind::kCommunication, 0)}, .waits = {{2, 3}}}.timeline();
  timeline.calls[1].start_ns = 150 * kUs;
  EXPECT_EQ(length_ns(*blocking_communication(timeline, timeline.work)), 40 * kUs);
}

TEST(BlockingCommunication, ReachesThroughCopies) {
  const Gap gap{.others = {work(110, 160, 3, WorkKind::kCommunication, 0),
                           work(160, 190, 4, WorkKind::kMemory, 0, 21)},
                .waits = {{2, 4}, {4, 3}}};
  EXPECT_EQ(blocking_us(gap), 50);
}

TEST(BlockingCommunication, IsNoneWhereItEndedBeforeComputingDid) {
  const Gap gap{.others = {work(50, 99, 3, WorkKind::kCommunication, 0),
                           work(120, 180, 4, WorkKind::kCommunication, 0)},
                .waits = {{2, 3}}};
  EXPECT_EQ(blocking_us(gap), 0);
}

TEST(IdleOfTheGpu, AddsUpWhateverTheTrace) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    Gap gap;
    for (uint64_t i = 3; i <= 9; ++i) {
      const auto begin = static_cast<int64_t>(random() % 280);
      gap.others.push_back(work(begin, begin + static_cast<int64_t>(random() % 90), i,
                                static_cast<WorkKind>(random() % 3), static_cast<int>(random() % 2),
                                static_cast<int>(random() % 3)));
      gap.waits.push_back({1 + random() % 9, random() % 10});
      gap.notes.push_back({.correlation = i});
      gap.notes.back().last_came_ns = static_cast<int64_t>(random() % 400) * kUs;
    }
    std::sort(gap.waits.begin(), gap.waits.end());
    gap.us();
    const Timeline timeline = gap.timeline();
    const std::optional<Spans> blocking = blocking_communication(timeline, timeline.work);
    EXPECT_LE(length_ns(*blocking), partition_of(timeline.work).exposed_communication_ns);
  }
}

}  // namespace
}  // namespace traintrace
