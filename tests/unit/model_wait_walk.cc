// uses: analyzer
// Roots and repairs in the graph of who waits for whom.
#include <gtest/gtest.h>

#include "analyzer/model/waiting/wait_walk.h"

namespace traintrace {
namespace {

Ranks ranks_of(std::initializer_list<int> values) {
  Ranks ranks;
  for (const int value : values) {
    insert(ranks, Rank{value});
  }
  return ranks;
}

// All of `waiters` wait in one operation for all of `awaited`.
Wait wait_of(std::initializer_list<int> waiters, std::initializer_list<int> awaited) {
  Wait wait;
  for (const int rank : waiters) {
    wait.waiters.emplace_back().rank = Rank{rank};
  }
  for (const int rank : awaited) {
    wait.awaited.emplace_back().rank = Rank{rank};
  }
  return wait;
}

TEST(WaitWalk, WhoIsWaitedForAndWaitsForNobodyIsAnEnd) {
  const Ranks all = ranks_of({0, 1, 2, 3, 4});
  const std::vector<Wait> waits = {wait_of({0, 1}, {2}), wait_of({2}, {3})};
  const WaitWalk walk(all, waits);
  // Rank 4 is an end too: nobody waits for it, which is the caller's to see.
  EXPECT_EQ(walk.ends(), (std::vector<Ranks>{ranks_of({3}), ranks_of({4})}));
  EXPECT_EQ(walk.all_before(ranks_of({3})), ranks_of({0, 1, 2}));
  EXPECT_EQ(walk.all_before(ranks_of({2})), ranks_of({0, 1}));
}

TEST(WaitWalk, OneOfACycleRepairsIt) {
  const Ranks all = ranks_of({0, 1, 2, 3});
  // The others have come to one operation, rank 3 alone to another that needs all of them.
  const std::vector<Wait> waits = {wait_of({0, 1, 2}, {3}), wait_of({3}, {0, 1, 2})};
  const WaitWalk walk(all, waits);
  EXPECT_EQ(walk.ends(), (std::vector<Ranks>{all}));
  EXPECT_EQ(walk.repair_of(all), Rank{3});
}

TEST(WaitWalk, WhereAnyOfACycleRepairsItItIsNobodyAlone) {
  const Ranks all = ranks_of({0, 1, 2});
  const std::vector<Wait> waits = {wait_of({0}, {1}), wait_of({1}, {2}), wait_of({2}, {0})};
  const WaitWalk walk(all, waits);
  EXPECT_EQ(walk.ends(), (std::vector<Ranks>{all}));
  EXPECT_EQ(walk.repair_of(all).value, -1);
}

TEST(WaitWalk, SeveralMayEachRepairACycleAlone) {
  const Ranks all = ranks_of({0, 1, 2, 3, 4});
  // Ranks 0 and 1 wait for each other by way of all others, 2 to 4 only in one of the ways.
  const std::vector<Wait> waits = {wait_of({0}, {2, 3, 4}), wait_of({2, 3, 4}, {1}),
                                   wait_of({1}, {0})};
  const WaitWalk walk(all, waits);
  EXPECT_EQ(walk.repairs_of(all), ranks_of({0, 1}));
  EXPECT_EQ(walk.repair_of(all).value, -1);
}

TEST(WaitWalk, ACycleOfManyIsRepairedWithoutAskingEach) {
  constexpr int kRanks = 20'000;
  Ranks all;
  std::vector<Wait> waits(2);
  for (int rank = 0; rank < kRanks; ++rank) {
    all.push_back(Rank{rank});
    (rank == 0 ? waits[0].awaited.emplace_back().rank : waits[1].awaited.emplace_back().rank) =
        Rank{rank};
    (rank == 0 ? waits[1] : waits[0]).waiters.emplace_back().rank = Rank{rank};
  }
  EXPECT_EQ(WaitWalk(all, waits).repair_of(all), Rank{0});
}

TEST(WaitWalk, TwoCyclesAreRepairedByTheRankThatIsInBoth) {
  const Ranks all = ranks_of({0, 1, 2});
  const std::vector<Wait> both = {wait_of({0}, {1}), wait_of({1}, {0, 2}), wait_of({2}, {1})};
  EXPECT_EQ(WaitWalk(all, both).repair_of(all), Rank{1});
  const Ranks four = ranks_of({0, 1, 2, 3});
  // Two cycles with nobody in common: no rank alone would do.
  const std::vector<Wait> apart = {wait_of({0}, {1}), wait_of({1}, {0, 2}), wait_of({2}, {3}),
                                   wait_of({3}, {2, 0})};
  EXPECT_EQ(WaitWalk(four, apart).ends(), (std::vector<Ranks>{four}));
  EXPECT_EQ(WaitWalk(four, apart).repair_of(four).value, -1);
}

TEST(WaitWalk, RanksThatAreNotAmongThemAreLeftOut) {
  const Ranks all = ranks_of({0, 1});
  const std::vector<Wait> waits = {wait_of({0}, {1, 7}), wait_of({9}, {0})};
  EXPECT_EQ(WaitWalk(all, waits).ends(), (std::vector<Ranks>{ranks_of({1})}));
}

TEST(WaitWalk, ChainsAreAsLongAsJobsAreLarge) {
  constexpr int kRanks = 100'000;
  Ranks all;
  std::vector<Wait> waits;
  for (int rank = 0; rank < kRanks; ++rank) {
    all.push_back(Rank{rank});
    if (rank > 0) {
      waits.push_back(wait_of({rank - 1}, {rank}));
    }
  }
  const WaitWalk walk(all, waits);
  EXPECT_EQ(walk.ends(), (std::vector<Ranks>{ranks_of({kRanks - 1})}));
  EXPECT_EQ(walk.all_before(ranks_of({kRanks - 1})).size(), kRanks - 1U);
}

}  // namespace
}  // namespace traintrace
