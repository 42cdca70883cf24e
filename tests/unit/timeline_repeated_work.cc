// uses: analyzer/timeline/recorded/repeated_work.cc analyzer/timeline/recorded/host_progress.cc
// analyzer/timeline/event_waits.cc
#include "analyzer/timeline/recorded/repeated_work.h"

#include <gtest/gtest.h>

namespace traintrace {
namespace {

constexpr int kDevice = 0;
constexpr int64_t kMs = 1'000'000;
using Busy = HostProgress::Busy;
using End = HostProgress::End;
using Spans = std::vector<std::pair<int64_t, int64_t>>;  // ms

// Launches of 0.1 ms each, one after the other, from `at_ms` on.
class Loop {
 public:
  void gives(int64_t at_ms, std::initializer_list<uint64_t> works,
             RepeatedWork::Before before = RepeatedWork::Before::kMayBeBusy) {
    int64_t now_ns = at_ms * kMs;
    for (const uint64_t what : works) {
      work_.given(kDevice, {now_ns, now_ns + kMs / 10, ++launch_, what}, before);
      before = RepeatedWork::Before::kMayBeBusy;
      now_ns += kMs / 10;
    }
  }
  RepeatedWork& work() { return work_; }
  Spans pieces(int64_t begin_ms, int64_t end_ms, End end) {
    Spans spans;
    for (const RepeatedWork::Piece& piece :
         work_.pieces({Busy{kDevice, begin_ms * kMs, end_ms * kMs, 1, end}})) {
      spans.emplace_back(piece.span.begin_ns / kMs, piece.span.end_ns / kMs);
    }
    return spans;
  }

 private:
  RepeatedWork work_;
  uint64_t launch_ = 0;
};

Loop three_steps(std::initializer_list<uint64_t> last) {
  Loop loop;
  loop.gives(0, {1, 2, 3}, RepeatedWork::Before::kIsIdle);
  loop.gives(40, {1, 2, 3});
  loop.gives(80, last);
  return loop;
}

TEST(RepeatedWork, TakesAsLongAsWhereItsEndWasSeen) {
  // From 80 to 92: 12 ms, and each of the others 0.3 ms of launches before them.
  EXPECT_EQ(three_steps({1, 2, 3}).pieces(0, 92, End::kBlocked),
            (Spans{{0, 12}, {40, 52}, {80, 92}}));
}

TEST(RepeatedWork, AlsoWhereMoreWasGivenBehindIt) {
  EXPECT_EQ(three_steps({1, 2, 3, 9}).pieces(0, 92, End::kBlocked),
            (Spans{{0, 12}, {40, 52}, {80, 92}}));
}

TEST(RepeatedWork, OtherWorkMayTakeFourTimesAsLong) {
  Loop loop = three_steps({1, 2});
  EXPECT_EQ(loop.pieces(0, 92, End::kBlocked), (Spans{{0, 92}}));
}

TEST(RepeatedWork, WhatIsQueuedComesFirst) {
  // 38 ms of work in each 40.
  EXPECT_EQ(three_steps({1, 2, 3}).pieces(0, 118, End::kBlocked),
            (Spans{{0, 38}, {40, 78}, {80, 118}}));
  // 45: the host is ahead, and what the last one waited for is in it.
  EXPECT_EQ(three_steps({1, 2, 3}).pieces(0, 135, End::kBlocked), (Spans{{0, 135}}));
}

TEST(RepeatedWork, WhoWaitsForSomeOfItSeesThatItIsThere) {
  Loop loop;
  loop.gives(0, {1, 2, 3}, RepeatedWork::Before::kIsIdle);
  loop.work().waited(30 * kMs);
  loop.gives(40, {1, 2, 3});
  loop.work().waited(77 * kMs);
  loop.gives(80, {1, 2, 3});
  EXPECT_EQ(loop.pieces(0, 88, End::kBlocked), (Spans{{0, 38}, {40, 88}}));
}

TEST(RepeatedWork, NothingIsSupposedWithoutAnEnd) {
  EXPECT_EQ(three_steps({1, 2, 3}).pieces(0, 81, End::kNotSeen), (Spans{{0, 81}}));
}

TEST(RepeatedWork, NorWhereItWaitsForOthers) {
  Loop loop = three_steps({1, 2, 3});
  loop.work().depends_on_others();
  EXPECT_EQ(loop.pieces(0, 92, End::kBlocked), (Spans{{0, 92}}));
}

TEST(RepeatedWork, APauseOfLessThanTwoMsIsNone) {
  Loop loop;
  loop.gives(0, {1, 2, 3}, RepeatedWork::Before::kIsIdle);
  loop.gives(2, {1, 2, 3});
  EXPECT_EQ(loop.pieces(0, 3, End::kBlocked), (Spans{{0, 3}}));
}

}  // namespace
}  // namespace traintrace
