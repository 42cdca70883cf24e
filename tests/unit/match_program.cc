// uses: analyzer
// Which ranks run the same program: those that departures may be looked for among.
#include "analyzer/match/program.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

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

// By rank.
std::vector<uint64_t> roles_in(const std::string& text) {
  Result<DumpText> dump = parse_dump(text, "pairs");
  EXPECT_TRUE(dump) << dump.error().message;
  Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  std::vector<uint64_t> roles;
  for (const Program& program : programs_of(judged->run)) {
    roles.push_back(program.role);
  }
  return roles;
}

TEST(MatchProgram, StagesWithCommunicatorsOfTwoAreToldApart) {
  const std::vector<uint64_t> roles = roles_in(kPairs);
  ASSERT_EQ(roles.size(), 10u);
  std::set<uint64_t> stages;
  for (size_t rank = 0; rank < roles.size(); rank += 2) {
    EXPECT_EQ(roles[rank], roles[rank + 1]) << rank;
    EXPECT_TRUE(stages.insert(roles[rank]).second) << rank;
  }
}

// Pipelines of four stages, each created its communicators in an order of its own: a rank's places
// in the first and the second of its communicators are those of a rank of another stage.
constexpr const char* kPipelines[] = {
    "communicator a01 members=0,1\n"
    "communicator a23 members=2,3\n"
    "communicator a12 members=1,2\n",
    "communicator b12 members=5,6\n"
    "communicator b01 members=4,5\n"
    "communicator b23 members=6,7\n",
    "communicator c01 members=8,9\n"
    "communicator c23 members=10,11\n"
    "communicator c12 members=9,10\n",
};
std::string exchange(const std::string& communicator, int sender) {
  return "+1 " + std::to_string(sender) + " calls ncclSend on " + communicator + " peer=1\n+1 " +
         std::to_string(sender + 1) + " calls ncclRecv on " + communicator + " peer=0\n";
}
std::string pipeline(size_t index) {
  const auto name = static_cast<char>('a' + index);
  std::string text = kPipelines[index];
  for (int stage = 0; stage < 3; ++stage) {
    text += exchange(name + std::to_string(stage) + std::to_string(stage + 1),
                     static_cast<int>(4 * index) + stage);
  }
  return text;
}

TEST(MatchProgram, StagesOfPipelinesOfOtherOrdersAreToldApart) {
  const std::vector<uint64_t> roles =
      roles_in("ranks 0-11\n" + pipeline(0) + pipeline(1) + pipeline(2));
  ASSERT_EQ(roles.size(), 12u);
  for (size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(roles[stage], roles[8 + stage]) << stage;
    for (size_t other = 4; other < 8; ++other) {
      EXPECT_NE(roles[stage], roles[other]) << stage << " and " << other;
    }
  }
}

// Rank 3 left no trace: of what is left of its pipeline nothing says that it is another one.
TEST(MatchProgram, PipelineWithoutATraceIsTakenForOneOfTheOthers) {
  std::string text = pipeline(0) + pipeline(2);
  const std::string with_it = "members=2,3\n";
  text.replace(text.find(with_it), with_it.size(), "members=2 size=2\n");
  const std::string its_receive = "+1 3 calls ncclRecv on a23 peer=0\n";
  text.erase(text.find(its_receive), its_receive.size());
  const std::vector<uint64_t> roles = roles_in("ranks 0-2,8-11 world=12\n" + text);
  ASSERT_EQ(roles.size(), 7u);
  EXPECT_EQ(roles[0], roles[3]);
  EXPECT_EQ(roles[1], roles[4]);
}

// A ring of three, in which each sends to the next and receives from the one before.  Rank 0 has
// done so once more, from another line.
constexpr const char* kRing =
    "ranks 0-2\n"
    "communicator cp members=0-2\n"
    "+1 0 calls ncclSend on cp peer=1 count=1024 grouped group=1 @ring.py:5:exchange\n"
    "+1 0 calls ncclRecv on cp peer=2 count=1024 grouped group=1 @ring.py:5:exchange\n"
    "+1 1 calls ncclSend on cp peer=2 count=1024 grouped group=1 @ring.py:5:exchange\n"
    "+1 1 calls ncclRecv on cp peer=0 count=1024 grouped group=1 @ring.py:5:exchange\n"
    "+1 2 calls ncclSend on cp peer=0 count=1024 grouped group=1 @ring.py:5:exchange\n"
    "+1 2 calls ncclRecv on cp peer=1 count=1024 grouped group=1 @ring.py:5:exchange\n"
    "+2 0 calls ncclSend on cp peer=1 count=1024 grouped group=2 @ring.py:9:exchange\n"
    "+2 0 calls ncclRecv on cp peer=2 count=1024 grouped group=2 @ring.py:9:exchange\n";

TEST(MatchProgram, InARingEachHasANeighbourOfItsOwn) {
  Result<DumpText> dump = parse_dump(kRing, "ring");
  ASSERT_TRUE(dump) << dump.error().message;
  Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  ASSERT_TRUE(judged);
  const std::vector<Program> programs = programs_of(judged->run);
  ASSERT_EQ(programs.size(), 3u);
  const std::vector<Call>& theirs = programs[0].calls;
  ASSERT_EQ(theirs.size(), 4u);
  const size_t communicator = theirs[0].communicator;
  EXPECT_EQ(peer_there(programs[1], communicator, theirs[0]), 2);
  EXPECT_EQ(peer_there(programs[2], communicator, theirs[0]), 0);
  EXPECT_EQ(peer_there(programs[1], communicator, theirs[1]), 0);
  EXPECT_EQ(peer_there(programs[2], communicator, theirs[1]), 1);
  // Never called there: as the other did.
  EXPECT_EQ(peer_there(programs[2], communicator + 1, theirs[0]), 1);
}

}  // namespace
}  // namespace traintrace
