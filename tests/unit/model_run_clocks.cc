// uses: analyzer
// A verdict does not depend on what the clock of a host shows: with that of one moved by any time,
// it is the same, or blames nobody.
#include "analyzer/model/runs/run_clocks.h"

#include <gtest/gtest.h>

#include <string>

#include "analyzer/judge/judge.h"
#include "analyzer/reader/move_times.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

constexpr const char* kFourHosts =
    "ranks 0-1 host=a world=8\n"
    "ranks 2-3 host=b world=8\n"
    "ranks 4-5 host=c world=8\n"
    "ranks 6-7 host=d world=8\n"
    "communicator dp members=0-7\n"
    "+1 0-7 calls ncclAllReduce on dp x200 every=10ms\n";

// Rank 5 never enters the operation that the others wait in; all are killed 17 s later.
constexpr const char* kHang =
    "+3 0-4,6,7 enqueues ncclAllReduce on dp\n"
    "+3.1 0-4,6,7 enters cudaStreamSynchronize\n"
    "+20 0-7 dies\n";

// Rank 5 dies in it.
constexpr const char* kDeath =
    "+3 0-7 enqueues ncclAllReduce on dp\n"
    "+3.001 5 dies\n"
    "+3.1 0-4,6,7 enters cudaStreamSynchronize\n"
    "+20 0-4,6,7 dies\n";

// Rank 5 exits with an error in it, which ends the others.
constexpr const char* kFailure =
    "+3.001 5 exits status=1\n"
    "+6 0-4,6,7 dies\n";

struct Blamed {
  std::string code;
  Ranks culprits, victims;
};

Blamed verdict(const std::string& text, const std::string& host, TimeNs by) {
  const std::string job = kFourHosts + text;
  Result<DumpText> dump = parse_dump(job, "job");
  EXPECT_TRUE(dump) << dump.error().message;
  for (ProcessTrace& trace : dump->processes) {
    if (trace.host == host) {
      move_times(trace, by);
    }
  }
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  const Finding& first = judged->findings.front();
  return {std::string(first.code), first.culprits, first.victims};
}

class OtherClock : public testing::TestWithParam<const char*> {};

TEST_P(OtherClock, DoesNotChangeTheVerdict) {
  const Blamed right = verdict(GetParam(), "", 0);
  EXPECT_EQ(right.culprits, Ranks{Rank{5}});
  for (const char* host : {"a", "b", "c", "d"}) {
    for (const TimeNs ms : {500, 2'000, 4'000, 10'000, 3'600'000}) {
      for (const TimeNs by : {ms * 1'000'000, -ms * 1'000'000}) {
        const Blamed found = verdict(GetParam(), host, by);
        EXPECT_EQ(found.code, right.code) << host << by;
        EXPECT_EQ(found.culprits, right.culprits) << host << by;
        EXPECT_EQ(found.victims, right.victims) << host << by;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, OtherClock, testing::Values(kHang, kDeath, kFailure));

TEST(RunClocks, TellHowWellTheyAreKnown) {
  const std::string job = std::string(kFourHosts) + kHang;
  Result<DumpText> dump = parse_dump(job, "job");
  ASSERT_TRUE(dump);
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  ASSERT_TRUE(judged);
  const traintrace::Run& run = judged->run;
  ASSERT_EQ(run.clocks.size(), 4U);
  EXPECT_EQ(uncertainty_between(run, run.processes[0], run.processes[1]), 0);
  EXPECT_GT(uncertainty_between(run, run.processes[0], run.processes[2]), 0);
  EXPECT_LT(uncertainty_between(run, run.processes[0], run.processes[2]), 1'000'000);
  EXPECT_TRUE(run.skews.empty());
  EXPECT_EQ(moved_by(run, run.processes[2]), 0);
}

// The same machine by its clock as it stood at two heartbeats.
TEST(RunClocks, OneMachineHasOneClock) {
  Result<DumpText> dump = parse_dump(
      "ranks 0 host=a world=2 boot=aa booted=-1000\n"
      "ranks 1 host=a world=2 boot=aa booted=-1000\n"
      "communicator dp members=0-1\n"
      "+1 0-1 calls ncclAllReduce on dp x20 every=10ms\n"
      "+9 0-1 exits\n",
      "job");
  ASSERT_TRUE(dump);
  const TimeNs armed = dump->processes[0].armed;
  move_times(dump->processes[0], -7'000'000'000);
  dump->processes[1].last_alive += 1'000'000'000;  // its heartbeat is the newest
  traintrace::Run run;
  run.processes = std::move(dump->processes);
  align_clocks_of(run);
  EXPECT_EQ(run.processes[0].armed, armed);
  EXPECT_EQ(run.clocks.size(), 1U);
}

}  // namespace
}  // namespace traintrace
