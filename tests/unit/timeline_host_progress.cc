// uses: analyzer/timeline/recorded/host_progress.cc analyzer/timeline/event_waits.cc
#include "analyzer/timeline/recorded/host_progress.h"

#include <gtest/gtest.h>

namespace traintrace {
namespace {

using Spans = std::vector<std::pair<int64_t, int64_t>>;
constexpr int kDevice = 1;
const HostProgress::Stream kMain{16, -1, 0}, kSide{32, -1, 0};

Spans busy(HostProgress& progress, int device = kDevice) {
  Spans spans;
  for (const HostProgress::Busy& each : progress.finish()) {
    if (each.device == device) {
      spans.emplace_back(each.begin_ns, each.end_ns);
    }
  }
  return spans;
}

TEST(HostProgress, IdleFromTheReturnToTheNextLaunch) {
  HostProgress progress;
  EXPECT_TRUE(progress.enqueued(kMain, kDevice, 10, 1));
  EXPECT_FALSE(progress.enqueued(kMain, kDevice, 20, 2));
  progress.synchronised(kMain, 30, 100);
  EXPECT_TRUE(progress.enqueued(kMain, kDevice, 150, 3));
  progress.synchronised(kMain, 160, 200);
  EXPECT_EQ(busy(progress), (Spans{{10, 100}, {150, 200}}));
}

TEST(HostProgress, WhatAnotherThreadLaunchesMeanwhileIsNotWaitedFor) {
  HostProgress progress;
  progress.enqueued(kMain, kDevice, 10, 1);
  progress.synchronised(kMain, 30, 100);
  EXPECT_FALSE(progress.enqueued(kMain, kDevice, 50, 2));
  EXPECT_FALSE(progress.enqueued(kMain, kDevice, 150, 3));
  progress.synchronised_device(kDevice, 160, 200);
  EXPECT_EQ(busy(progress), (Spans{{10, 200}}));
}

// A collective on a stream of its own may go on.
TEST(HostProgress, AnotherStreamMayHaveWork) {
  HostProgress progress;
  progress.recorded(7, kMain);
  progress.waits_for(kSide, 7);
  progress.enqueued(kSide, kDevice, 5, 1);
  progress.enqueued(kMain, kDevice, 10, 2);
  progress.synchronised(kMain, 30, 100);
  EXPECT_FALSE(progress.enqueued(kMain, kDevice, 150, 3));
  EXPECT_EQ(busy(progress), (Spans{{5, 150}}));
}

TEST(HostProgress, UnlessTheFirstWaitedForIt) {
  HostProgress progress;
  progress.enqueued(kSide, kDevice, 5, 1);
  progress.mark(kSide, 77);
  progress.recorded(7, kSide);
  progress.waits_for(kMain, 7);
  progress.enqueued(kMain, kDevice, 10, 2);
  progress.synchronised(kMain, 30, 100);
  EXPECT_TRUE(progress.enqueued(kMain, kDevice, 150, 3));
  EXPECT_EQ(busy(progress), (Spans{{5, 100}, {150, 150}}));
  EXPECT_EQ(progress.done_ns(77), 100);
  EXPECT_FALSE(progress.done_ns(78).has_value());
}

TEST(HostProgress, AnEventCountsForWhatWasBeforeIt) {
  HostProgress progress;
  progress.enqueued(kMain, kDevice, 10, 1);
  progress.recorded(7, kMain);
  progress.synchronised_event(7, 20, 60);
  EXPECT_TRUE(progress.enqueued(kMain, kDevice, 80, 2));
  progress.synchronised_event(7, 90, 95);
  EXPECT_FALSE(progress.enqueued(kMain, kDevice, 99, 3));
  EXPECT_EQ(busy(progress), (Spans{{10, 60}, {80, 99}}));
}

TEST(HostProgress, WhatWasBeforeTheRecordsMayStillRun) {
  HostProgress progress;
  progress.is_unknown(kSide, kDevice);
  progress.enqueued(kMain, kDevice, 10, 1);
  progress.synchronised(kMain, 30, 100);
  EXPECT_FALSE(progress.enqueued(kMain, kDevice, 150, 2));
  progress.synchronised_device(kDevice, 160, 200);
  EXPECT_TRUE(progress.enqueued(kMain, kDevice, 250, 3));
}

TEST(HostProgress, WorkOfAnUnknownDeviceProvesNothing) {
  HostProgress progress;
  progress.enqueued(kMain, kDevice, 10, 1);
  progress.enqueued(kSide, -1, 15, 2);
  progress.synchronised(kMain, 30, 100);
  EXPECT_TRUE(busy(progress).empty());
}

TEST(HostProgress, DevicesAreApart) {
  HostProgress progress;
  progress.enqueued(kMain, kDevice, 10, 1);
  progress.enqueued(kSide, 2, 15, 2);
  progress.synchronised(kMain, 30, 100);
  EXPECT_TRUE(progress.enqueued(kMain, kDevice, 150, 3));
  EXPECT_EQ(busy(progress), (Spans{{10, 100}, {150, 150}}));
}

// When the host saw that the work before mark 77 was over: was that when it was?
struct Seen {
  HostProgress progress;

  Seen() {
    progress.enqueued(kMain, kDevice, 10, 1);
    progress.mark(kMain, 77);
  }
  bool after_wait(int64_t enter_ns, int64_t leave_ns) {
    progress.synchronised(kMain, enter_ns, leave_ns);
    progress.finish();
    return progress.end_was_seen(77);
  }
};

TEST(HostProgress, AnEndIsSeenByAWaitThatBlocks) {
  EXPECT_TRUE(Seen().after_wait(100, 1'000'100));
  EXPECT_FALSE(Seen().after_wait(100, 1'100)) << "it may have been over long before";
}

TEST(HostProgress, AnEndIsNotSeenBehindOtherWork) {
  Seen copies;
  copies.progress.enqueued(kMain, kDevice, 20, 2, HostProgress::Weight::kBrief);
  EXPECT_TRUE(copies.after_wait(100, 1'000'100));
  Seen works;
  works.progress.enqueued(kMain, kDevice, 20, 2);
  EXPECT_FALSE(works.after_wait(100, 1'000'100));
}

TEST(HostProgress, AnEndIsNotSeenBehindWorkOfAnotherStream) {
  Seen before;  // the collective itself waits for that
  HostProgress& progress = before.progress;
  progress.enqueued(kSide, kDevice, 20, 2);
  progress.recorded(7, kSide);
  progress.waits_for(kMain, 7);
  progress.enqueued(kMain, kDevice, 30, 3);
  progress.mark(kMain, 78);
  progress.synchronised(kMain, 100, 1'000'100);
  progress.finish();
  EXPECT_FALSE(progress.end_was_seen(77));
  EXPECT_TRUE(progress.end_was_seen(78));
  Seen beside;
  beside.progress.enqueued(kSide, kDevice, 20, 2);
  beside.progress.recorded(7, kSide);
  beside.progress.waits_for(kMain, 7);
  EXPECT_FALSE(beside.after_wait(100, 1'000'100));
}

}  // namespace
}  // namespace traintrace
