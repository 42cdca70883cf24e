// uses: analyzer
// One block that is made anew and larger again and again.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "analyzer/memory/growth/growth.h"

namespace traintrace {
namespace {

// Each is allocated a microsecond after the last, which is freed then.
StackMemoryText replaced_by(const std::vector<uint64_t>& sizes) {
  SeriesBuilder builder;
  uint64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    builder.add({7, 0, 0, sizes[i], static_cast<TimeNs>(i) * 1000});
    if (i > 0) {
      builder.remove(7, last);
    }
    last = sizes[i];
  }
  return builder.finish().at(7);
}

std::vector<uint64_t> sizes(size_t count, uint64_t (*size)(size_t)) {
  std::vector<uint64_t> all;
  for (size_t i = 0; i < count; ++i) {
    all.push_back(size(i));
  }
  return all;
}

bool grows(const std::vector<uint64_t>& sizes) {
  std::vector<Births> births;
  for (const LeftOver& added : added_to_one(replaced_by(sizes))) {
    births.push_back({added.time / 1000 + 1, added.blocks});
  }
  return grows_throughout(births, 0, static_cast<int64_t>(sizes.size()), BeginsWhen::kEarly);
}

TEST(MemoryReplaced, WhatIsAddedEachTimeIsFoundAtEveryLength) {
  for (size_t count = 10; count <= 400; ++count) {
    EXPECT_TRUE(grows(sizes(count, [](size_t i) { return (i + 1) * 4096; }))) << count;
  }
}

TEST(MemoryReplaced, WhatIsAddedIsTheDifference) {
  const std::vector<LeftOver> added = added_to_one(replaced_by({1000, 1300, 1300, 2000}));
  ASSERT_EQ(added.size(), 2U);
  EXPECT_EQ(added[0].bytes, 1000U);
  EXPECT_EQ(added[1].bytes, 300U);
  EXPECT_EQ(added[1].time, 1000);
}

TEST(MemoryReplaced, OfOneSizeOrFullItDoesNotGrow) {
  for (size_t count = 10; count <= 200; ++count) {
    EXPECT_FALSE(grows(sizes(count, [](size_t) { return uint64_t{4096}; }))) << count;
  }
  for (size_t count = 30; count <= 200; ++count) {
    EXPECT_FALSE(grows(sizes(count, [](size_t i) { return (std::min<size_t>(i, 14) + 1) * 4096; })))
        << count;
  }
}

TEST(MemoryReplaced, SizesThatVaryDoNotGrow) {
  for (size_t count = 10; count <= 400; ++count) {
    EXPECT_FALSE(grows(sizes(count, [](size_t i) { return (i * 7919 % 1013 + 1) * 512; })))
        << count;
  }
}

TEST(MemoryReplaced, MoreThanOneAtATimeIsNotJudged) {
  SeriesBuilder builder;
  for (int i = 0; i < 20; ++i) {
    builder.add({7, 0, 0, 4096U * static_cast<uint64_t>(i + 1), i * TimeNs{1000}});
    if (i > 1) {
      builder.remove(7, 4096U * static_cast<uint64_t>(i - 1));
    }
  }
  EXPECT_TRUE(added_to_one(builder.finish().at(7)).empty());
}

TEST(MemoryReplaced, EnlargingsAreCounted) {
  const StackMemoryText memory = replaced_by({10, 20, 15, 20, 30});
  EXPECT_EQ(memory.enlargings, 3U);
  EXPECT_EQ(memory.newest, 30U);
}

}  // namespace
}  // namespace traintrace
