// uses: analyzer
// Which ranks run the same program: those that departures may be looked for among.
#include "analyzer/match/program.h"

#include <gtest/gtest.h>

#include <set>

#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// Two pipelines of five stages, 0,2,4,6,8 and 1,3,5,7,9.  PyTorch sends a message that is in no
// batch over a communicator of the two ranks.
constexpr const char* kPairs =
    "ranks 0-9\n"
    "communicator a01 members=0,2\n"
    "communicator b01 members=1,3\n"
    "communicator a12 members=2,4\n"
    "communicator b12 members=3,5\n"
    "communicator a23 members=4,6\n"
    "communicator b23 members=5,7\n"
    "communicator a34 members=6,8\n"
    "communicator b34 members=7,9\n"
    "+1 0 calls ncclSend on a01 peer=1\n"
    "+1 2 calls ncclRecv on a01 peer=0\n"
    "+1 1 calls ncclSend on b01 peer=1\n"
    "+1 3 calls ncclRecv on b01 peer=0\n"
    "+2 2 calls ncclSend on a12 peer=1\n"
    "+2 4 calls ncclRecv on a12 peer=0\n"
    "+2 3 calls ncclSend on b12 peer=1\n"
    "+2 5 calls ncclRecv on b12 peer=0\n"
    "+3 4 calls ncclSend on a23 peer=1\n"
    "+3 6 calls ncclRecv on a23 peer=0\n"
    "+3 5 calls ncclSend on b23 peer=1\n"
    "+3 7 calls ncclRecv on b23 peer=0\n"
    "+4 6 calls ncclSend on a34 peer=1\n"
    "+4 8 calls ncclRecv on a34 peer=0\n"
    "+4 7 calls ncclSend on b34 peer=1\n"
    "+4 9 calls ncclRecv on b34 peer=0\n";

TEST(MatchProgram, StagesWithCommunicatorsOfTwoAreToldApart) {
  Result<DumpText> dump = parse_dump(kPairs, "pairs");
  ASSERT_TRUE(dump) << dump.error().message;
  Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  ASSERT_TRUE(judged);
  const std::vector<Program> programs = programs_of(judged->run);
  ASSERT_EQ(programs.size(), 10u);
  std::set<uint64_t> stages;
  for (size_t rank = 0; rank < programs.size(); rank += 2) {
    EXPECT_EQ(programs[rank].role, programs[rank + 1].role) << rank;
    EXPECT_TRUE(stages.insert(programs[rank].role).second) << rank;
  }
}

}  // namespace
}  // namespace traintrace
