// uses: analyzer
// Whom a repair frees: a rank that called otherwise than its twins is to blame only if the others
// would not wait had it called what they did.
#include "analyzer/match/repair_streams.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/judge/judge.h"
#include "analyzer/match/departures.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// Four pairs.  The even ranks send three times and receive what comes back; then all meet.
constexpr const char* kPairs =
    "ranks 0-7\n"
    "communicator dp members=0-7\n"
    "communicator p0 members=0,1\n"
    "communicator p1 members=2,3\n"
    "communicator p2 members=4,5\n"
    "communicator p3 members=6,7\n"
    "+1 0-7 calls ncclAllReduce on dp x3\n"
    "+2 0 calls ncclSend on p0 peer=1 x3 every=10ms\n"
    "+2 1 calls ncclRecv on p0 peer=0 x3 every=10ms\n"
    "+2 2 calls ncclSend on p1 peer=1 x3 every=10ms\n"
    "+2 3 calls ncclRecv on p1 peer=0 x3 every=10ms\n"
    "+2 4 calls ncclSend on p2 peer=1 x3 every=10ms\n"
    "+2 5 calls ncclRecv on p2 peer=0 x3 every=10ms\n"
    "+2 6 calls ncclSend on p3 peer=1 x3 every=10ms\n"
    "+2 7 calls ncclRecv on p3 peer=0 x3 every=10ms\n"
    "+3 2 calls ncclRecv on p1 peer=1\n"
    "+3 3 calls ncclSend on p1 peer=0\n"
    "+3 6 calls ncclRecv on p3 peer=1\n"
    "+3 7 calls ncclSend on p3 peer=0\n";

constexpr const char* kEnd =
    "+3.2 2-7 enqueues ncclAllReduce on dp\n"
    "+3.3 2-7 enters cudaStreamSynchronize\n"
    "end +90\n";

// Rank 1 has not sent.  Rank 4 sent something that nobody needs: that is no reason.
const std::string kNeedless = std::string(kPairs) +
                              "+2.5 4 calls ncclSend on p2 peer=1 count=16\n"
                              "+3 4 calls ncclRecv on p2 peer=1\n"
                              "+3 5 calls ncclSend on p2 peer=0\n"
                              "+3 0 enqueues ncclRecv on p0 peer=1\n"
                              "+3.1 0 enters cudaStreamSynchronize\n" +
                              kEnd;

// All have sent, and rank 4 receives once more than its twins: it is the only reason.
const std::string kOnceMore = std::string(kPairs) +
                              "+3 0 calls ncclRecv on p0 peer=1\n"
                              "+3 1 calls ncclSend on p0 peer=0\n"
                              "+3 4 calls ncclRecv on p2 peer=1\n"
                              "+3 5 calls ncclSend on p2 peer=0\n"
                              "+3.1 4 enqueues ncclRecv on p2 peer=1 stream=0x20\n"
                              "+3.2 4 enqueues ncclAllReduce on dp stream=0x20\n"
                              "+3.3 4 enters cudaStreamSynchronize\n"
                              "+3.2 0-3,5-7 enqueues ncclAllReduce on dp\n"
                              "+3.3 0-3,5-7 enters cudaStreamSynchronize\n"
                              "end +90\n";

JudgedRun judged_run(const std::string& text) {
  Result<DumpText> dump = parse_dump(text, "pairs");
  EXPECT_TRUE(dump) << dump.error().message;
  Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  return std::move(*judged);
}

Freed freed_by_repair_of(Rank rank, Run& run) {
  const std::vector<Program> programs = programs_of(run);
  for (const Departure& departure : departures_of(run, programs)) {
    if (departure.rank == rank) {
      return StreamRepairs(run).freed_by(programs, departure);
    }
  }
  ADD_FAILURE() << "rank " << rank.value << " parted from nobody";
  return Freed::kNobody;
}

TEST(MatchRepairStreams, FreesAllWhereItIsTheReason) {
  JudgedRun judged = judged_run(kOnceMore);
  EXPECT_EQ(freed_by_repair_of(Rank{4}, judged.run), Freed::kAll);
}

TEST(MatchRepairStreams, FreesNobodyWhereAnotherIsTheReason) {
  JudgedRun judged = judged_run(kNeedless);
  EXPECT_EQ(freed_by_repair_of(Rank{4}, judged.run), Freed::kNobody);
}

// Of older operations, say, which the repaired run does not have: nobody is free for that.
TEST(MatchRepairStreams, DoesNotCountWaitsThatWereFoundInAnotherWay) {
  JudgedRun judged = judged_run(kNeedless);
  ASSERT_FALSE(judged.run.waits.waits.empty());
  Wait seen = judged.run.waits.waits.front();
  seen.waiters.resize(1);
  seen.waiters.front().rank = Rank{1};
  judged.run.waits.waits.push_back(seen);
  EXPECT_EQ(freed_by_repair_of(Rank{4}, judged.run), Freed::kNobody);
}

// The run is as it was.
TEST(MatchRepairStreams, LeavesTheRunAsItWas) {
  JudgedRun judged = judged_run(kOnceMore);
  const size_t divergences = judged.run.divergences.size();
  const uint64_t records = judged.run.processes[4].communicators.back().operations;
  freed_by_repair_of(Rank{4}, judged.run);
  EXPECT_EQ(judged.run.divergences.size(), divergences);
  EXPECT_EQ(judged.run.processes[4].communicators.back().operations, records);
}

}  // namespace
}  // namespace traintrace
