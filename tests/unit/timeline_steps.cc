// uses: analyzer
#include <gtest/gtest.h>

#include <numeric>
#include <string>

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

// The recording of the GPU ends within the second of four steps; `missing`: launches without work.
Timeline that_ends_early() {
  Timeline timeline = empty();
  timeline.names.emplace_back("cudaLaunchKernel");
  timeline.step_starts = {0, 10, 20, 30};
  for (const int64_t step : timeline.step_starts) {
    for (int64_t launch = 1; launch <= 4; ++launch) {
      add(timeline, step + launch, 100 + 10 * step + 10 * launch, 110 + 10 * step + 10 * launch);
      timeline.calls.back().name = 1;
    }
  }
  timeline.work.resize(7);
  return timeline;
}

TEST(StepsOnDevice, AreThoseOfWhichWorkWasRecorded) {
  const Timeline timeline = that_ends_early();
  EXPECT_EQ(steps_on_device(timeline, 0), (std::vector<int64_t>{110, 150}));
  EXPECT_EQ(steps_left_out(timeline), 2U);
  EXPECT_DOUBLE_EQ(recorded_steps(timeline, 2), 1.75);
}

TEST(StepsOnDevice, AreAllWhereOnlySingleLaunchesHaveNoWork) {
  Timeline timeline = that_ends_early();
  add(timeline, 34, 450, 460);  // the last of all has some
  timeline.calls.back().name = 1;
  EXPECT_EQ(steps_on_device(timeline, 0).size(), 4U);
  EXPECT_EQ(steps_left_out(timeline), 0U);
  EXPECT_DOUBLE_EQ(recorded_steps(timeline, 4), 4);
}

TEST(StepsOnDevice, AreNotLeftOutWhereTheJobLaunchesNothingMore) {
  Timeline timeline = that_ends_early();
  timeline.calls.resize(7);
  EXPECT_EQ(steps_left_out(timeline), 0U);
  EXPECT_DOUBLE_EQ(recorded_steps(timeline, 2), 2);
}

// One kernel after another on one stream, by its letter, each for 10 ns; `m` is a copy.
Timeline stream_of(const std::string& kernels) {
  Timeline timeline = empty();
  timeline.names.clear();
  for (char letter = 0; letter < 127; ++letter) {
    timeline.names.emplace_back(1, letter);
  }
  for (const char kernel : kernels) {
    const auto at = static_cast<int64_t>(timeline.work.size()) * 10;
    add(timeline, at - 5, at, at + 10);
    timeline.work.back().name = static_cast<unsigned char>(kernel);
    timeline.work.back().kind = kernel == 'm' ? WorkKind::kMemory : WorkKind::kCompute;
  }
  return timeline;
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

// Where the period's steps begin, in pieces of work.
std::vector<int64_t> found_steps(const Timeline& timeline) {
  std::vector<int64_t> starts;
  if (const std::optional<StepPeriod> period = find_step_period(timeline)) {
    for (const int64_t start_ns : period->starts) {
      starts.push_back(start_ns / 10);
    }
  }
  return starts;
}

const std::string kStep = "abcdefghijklbcdefghijklo";  // 24

TEST(StepPeriod, LeavesOutWhatComesBetweenStepsNowAndThen) {
  const std::vector<int64_t> starts = found_steps(stream_of(repeated(repeated(kStep, 5) + "m", 4)));
  ASSERT_EQ(starts.size(), 20);
  EXPECT_EQ(starts[4], 4 * 24);
  EXPECT_EQ(starts[5], 5 * 24 + 1);
  EXPECT_EQ(starts[19], 19 * 24 + 3);
}

TEST(StepPeriod, IsFoundWhereWhatComesBetweenCutsARecordingIntoEighths) {
  const std::vector<int64_t> starts =
      found_steps(stream_of("o" + repeated(repeated("abcdefno", 10) + "m", 8)));
  ASSERT_EQ(starts.size(), 80);
  EXPECT_EQ(starts[0], 1);  // the recording begins within a step
  EXPECT_EQ(starts[10], 1 + 80 + 1);
}

TEST(StepPeriod, LeavesOutAnEvaluationOfKernelsThatStepsHave) {
  const std::vector<int64_t> starts =
      found_steps(stream_of(repeated(repeated(kStep, 10) + "bcdefghijklm", 4)));
  ASSERT_EQ(starts.size(), 40);
  EXPECT_EQ(starts[10], 10 * 24 + 12);
}

// A recording of one step may be its layers, and what comes before the first of them.
TEST(StepPeriod, LeavesOutAWarmUpWhereTheHostWaitsInEachStep) {
  Timeline timeline = stream_of("wwvwx" + repeated(kStep, 10));
  EXPECT_TRUE(found_steps(timeline).empty());
  for (int64_t step = 0; step < 10; ++step) {
    const int64_t at = 50 + step * 240;
    timeline.calls.push_back({at + 1, at + 230, 0, 0, 0, HostCallKind::kBlocking});
  }
  const std::vector<int64_t> starts = found_steps(timeline);
  ASSERT_EQ(starts.size(), 10);
  EXPECT_EQ(starts.front(), 5);
}

TEST(StepPeriod, IsNoneOfTheLayersOfASingleStep) {
  EXPECT_TRUE(found_steps(stream_of("xyzw" + repeated(kStep, 12) + "uv")).empty());
}

// The optimizer comes once in a step, after five micro-batches: these are no steps.
TEST(StepPeriod, HasWhatComesAgainBetweenShorterOnes) {
  const std::vector<int64_t> starts = found_steps(stream_of(repeated(repeated(kStep, 5) + "p", 4)));
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 121, 242, 363}));
}

TEST(StepPeriod, IsThatOfShortStepsAfterWhichACopyComesNowAndThen) {
  const std::vector<int64_t> starts =
      found_steps(stream_of(repeated(repeated("abcdefo", 10) + "m", 4)));
  ASSERT_EQ(starts.size(), 40);
  EXPECT_EQ(starts[10], 71);
}

TEST(StepPeriod, IsThatOfShortStepsInEachOfWhichTheHostWaits) {
  Timeline timeline = stream_of(repeated("abcdefo", 20));
  EXPECT_EQ(found_steps(timeline).size(), 6);  // of at least 20 pieces: these may be layers
  for (int64_t step = 0; step < 20; ++step) {
    timeline.calls.push_back({step * 70 + 1, step * 70 + 60, 0, 0, 0, HostCallKind::kBlocking});
  }
  EXPECT_EQ(found_steps(timeline).size(), 20);
}

TEST(StepPeriod, IsNotOneKernelOverAndOver) {
  const std::vector<int64_t> starts = found_steps(stream_of(repeated(repeated("t", 50) + "m", 4)));
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 51, 102, 153}));
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
