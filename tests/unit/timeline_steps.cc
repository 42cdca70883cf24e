// uses: analyzer
#include <gtest/gtest.h>

#include <numeric>

#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

// Launches at `launched`, work from `start` to `end`.
void add(Timeline& timeline, int64_t launched, int64_t start, int64_t end) {
  const uint64_t correlation = timeline.calls.size() + 1;
  timeline.calls.push_back({launched, launched + 1, correlation, 0, 0, HostCallKind::kOther});
  timeline.work.push_back({start, end, correlation, 0, 0, 0, WorkKind::kCompute});
}

Timeline empty() {
  Timeline timeline;
  timeline.names = {"work"};
  timeline.threads = {"thread"};
  return timeline;
}

TEST(StepsOnDevice, FollowTheWorkOfAHostThatRunsAhead) {
  Timeline timeline = empty();
  timeline.step_starts = {0, 10, 20};
  add(timeline, 1, 5, 100);
  add(timeline, 11, 103, 200);
  add(timeline, 21, 200, 300);
  EXPECT_EQ(steps_on_device(timeline, 0), (std::vector<int64_t>{5, 100, 200}));
}

TEST(StepsOnDevice, CutAGapWhereTheHostBeganTheNext) {
  Timeline timeline = empty();
  timeline.step_starts = {0, 150};
  add(timeline, 1, 5, 100);
  add(timeline, 180, 190, 200);
  EXPECT_EQ(steps_on_device(timeline, 0), (std::vector<int64_t>{5, 150}));
}

TEST(StepsOnDevice, CutOverlappingStepsAtTheFirstWorkOfTheNext) {
  Timeline timeline = empty();
  timeline.step_starts = {0, 10};
  add(timeline, 1, 5, 100);
  add(timeline, 11, 60, 200);  // on another stream
  EXPECT_EQ(steps_on_device(timeline, 0), (std::vector<int64_t>{5, 60}));
}

// The copy of each batch, on a stream of its own, is done long before the step it is for.
TEST(StepsOnDevice, AreNotDrawnAheadByWhatOtherStreamsDoEarly) {
  Timeline timeline = empty();
  timeline.step_starts = {0, 10, 20};
  const auto add_copy = [&](int64_t launched, int64_t start) {
    add(timeline, launched, start, start + 2);
    timeline.work.back().stream = 31;
    timeline.work.back().kind = WorkKind::kMemory;
  };
  add_copy(1, 3);
  add(timeline, 2, 6, 100);
  add_copy(11, 13);
  add(timeline, 12, 103, 200);
  add_copy(21, 23);
  add(timeline, 22, 200, 300);
  EXPECT_EQ(steps_on_device(timeline, 0), (std::vector<int64_t>{3, 100, 200}));
}

TEST(StepsOnDevice, HaveWhatTheirOwnCopyHoldsUp) {
  Timeline timeline = empty();
  timeline.step_starts = {0, 10};
  add(timeline, 1, 5, 100);
  add(timeline, 11, 100, 150);
  timeline.work.back().stream = 31;
  timeline.work.back().kind = WorkKind::kMemory;
  add(timeline, 12, 150, 200);
  EXPECT_EQ(steps_on_device(timeline, 0), (std::vector<int64_t>{5, 100}));
}

TEST(StepsOnDevice, AreTheMarksWhereNoLaunchIsKnown) {
  Timeline timeline = empty();
  timeline.step_starts = {0, 10};
  add(timeline, 1, 5, 100);
  timeline.calls.clear();
  EXPECT_EQ(steps_on_device(timeline, 0), timeline.step_starts);
}

TEST(IdleByStep, AddsUpToThatOfAllWithNegativeTimesToo) {
  Timeline timeline = empty();
  add(timeline, -1000, -990, -900);
  timeline.calls.push_back({-950, -800, 0, 0, 0, HostCallKind::kBlocking});
  add(timeline, -500, -490, -400);
  add(timeline, -300, -290, -200);
  const std::vector<int64_t> cuts = {-990, -700, -650, -350};
  const std::vector<IdleTimes> steps = idle_by_cause(timeline, timeline.work, cuts);
  const IdleTimes all = idle_by_cause(timeline, timeline.work);
  for (size_t cause = 0; cause < kIdleCauses; ++cause) {
    int64_t sum = 0;
    for (const IdleTimes& step : steps) {
      sum += step[cause];
    }
    EXPECT_EQ(sum, all[cause]) << kIdleCauseNames[cause];
  }
  const auto in_step = [&](size_t step) {
    return std::accumulate(steps[step].begin(), steps[step].end(), int64_t{0});
  };
  EXPECT_EQ(in_step(1), 50);                                              // all of it idle
  EXPECT_EQ(steps[1][static_cast<size_t>(IdleCause::kSyncInduced)], 50);  // as the whole gap
  EXPECT_EQ(in_step(0) + in_step(1) + in_step(2) + in_step(3), 410 + 110);
}

}  // namespace
}  // namespace traintrace
