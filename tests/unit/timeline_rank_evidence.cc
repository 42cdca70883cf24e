// uses: analyzer
#include <gtest/gtest.h>

#include "analyzer/timeline/rank_evidence.h"

namespace traintrace {
namespace {

TEST(RankOfName, IsTheNumberBehindTheWord) {
  EXPECT_EQ(rank_of_name("/data/rank2.pt.trace.json"), 2);
  EXPECT_EQ(rank_of_name("step_12_rank_13_.json.gz"), 13);
  EXPECT_EQ(rank_of_name("Rank-0.json"), 0);
  EXPECT_EQ(rank_of_name("global_rank=7.json"), 7);
  EXPECT_EQ(rank_of_name("rank3of8.json"), 3);
  EXPECT_EQ(rank_of_name("rank3_step_rank3.json"), 3);
}

TEST(RankOfName, IsNoNumberOfSomethingElse) {
  for (const char* name :
       {"trace.json", "/rank2/trace.json", "ranks4.json", "frank2.json", "local_rank2.json",
        "tp_rank_0.json", "node-rank1.json", "rank.json", "rank_one.json", "rank1_rank2.json",
        "rank99999999999.json", "localrank2.json"}) {
    EXPECT_FALSE(rank_of_name(name)) << name;
  }
  EXPECT_EQ(rank_of_name("tp_rank0_global_rank5.json"), 5);
}

TEST(GroupMembers, AreAllOrNone) {
  EXPECT_EQ(group_members("[0, 1, 13]"), (std::set<int>{0, 1, 13}));
  EXPECT_EQ(group_members("[5]"), (std::set<int>{5}));
  for (const char* text : {"", "[]", "[0, 1, ...]", "[0, 1, ..., 7]"}) {
    EXPECT_TRUE(group_members(text).empty()) << text;
  }
}

class PossibleRanks : public ::testing::Test {
 protected:
  void add(const char* members, int32_t peer = -1) {
    CollectiveNote note{timeline_.collectives.size() + 1};
    note.group = 0;
    note.members = static_cast<uint32_t>(timeline_.names.size());
    note.peer = peer;
    timeline_.names.emplace_back(members);
    timeline_.collectives.push_back(note);
  }
  Timeline timeline_;
};

TEST_F(PossibleRanks, AreInAllGroupsAndNoPeers) {
  timeline_.names = {"pg"};
  EXPECT_FALSE(possible_ranks(timeline_));
  add("[0, 1, 2, 3]");
  EXPECT_EQ(possible_ranks(timeline_), (std::set<int>{0, 1, 2, 3}));
  add("[2, 3]");
  EXPECT_EQ(possible_ranks(timeline_), (std::set<int>{2, 3}));
  add("[0, 1, 2, 3]", 3);
  EXPECT_EQ(possible_ranks(timeline_), (std::set<int>{2}));
}

TEST_F(PossibleRanks, DecideWhetherANameIsBelieved) {
  timeline_.names = {"pg"};
  timeline_.source = "rank1.json";
  add("[2, 3]");
  take_rank_of_name(timeline_);
  EXPECT_FALSE(timeline_.rank);
  EXPECT_EQ(timeline_.world_size, 4);
  timeline_.source = "rank3.json";
  take_rank_of_name(timeline_);
  EXPECT_EQ(timeline_.rank, 3);
  EXPECT_EQ(timeline_.rank_from, RankSource::kFileName);
}

}  // namespace
}  // namespace traintrace
