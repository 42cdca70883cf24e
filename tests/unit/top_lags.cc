// uses: analyzer
#include "analyzer/top/lags.h"

#include <gtest/gtest.h>

#include <vector>

namespace traintrace {
namespace {

constexpr TimeNs kStep = 100'000'000;
constexpr int64_t kMs = 1'000'000;

// Of each rank the collectives `first` to `last`, each entered so much after its beginning.
std::vector<Lag> lags(const std::vector<int64_t>& after, uint64_t first = 1, uint64_t last = 20) {
  std::vector<Entries> entries(after.size());
  std::vector<const Entries*> members;
  for (size_t i = 0; i < after.size(); ++i) {
    for (uint64_t sequence = first; sequence <= last; ++sequence) {
      entries[i][sequence] = static_cast<TimeNs>(sequence) * kStep + after[i];
    }
    members.push_back(&entries[i]);
  }
  return lags_of(members);
}

TEST(Lags, OfTheLastTenAgainstTheMedian) {
  const std::vector<Lag> found = lags({0, 0, 0, 5 * kMs});
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[3].ns, 5 * kMs);
  EXPECT_EQ(found[3].last, 10);
  EXPECT_EQ(found[3].of, 10);
  EXPECT_TRUE(found[3].is_exceptional);
  EXPECT_EQ(found[0].ns, 0);
  EXPECT_FALSE(found[0].is_exceptional);
}

TEST(Lags, NotLessThanAMillisecondNorWhatIsUsual) {
  EXPECT_FALSE(lags({0, 0, 0, kMs})[3].is_exceptional);
  EXPECT_TRUE(lags({0, 0, 0, kMs + 1})[3].is_exceptional);
  EXPECT_FALSE(lags({0, 2 * kMs, 4 * kMs, 6 * kMs})[3].is_exceptional);
}

TEST(Lags, TakesFiveThatAllHaveEntered) {
  EXPECT_FALSE(lags({0, 0, 0, 5 * kMs}, 1, 4)[3].is_exceptional);
  EXPECT_TRUE(lags({0, 0, 0, 5 * kMs}, 1, 5)[3].is_exceptional);
}

TEST(Lags, OfOthersAlone) {
  EXPECT_TRUE(lags({5 * kMs}).empty());
  const Entries early = {{1, 10}, {2, 20}};
  const Entries later = {{3, 30}, {4, 40}};
  const Entries none;
  EXPECT_TRUE(lags_of({&early, &later}).empty());
  EXPECT_TRUE(lags_of({&early, &none}).empty());
}

}  // namespace
}  // namespace traintrace
