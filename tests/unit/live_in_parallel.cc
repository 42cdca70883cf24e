// What many processes are looked at with: all of them, whatever becomes of one.
#include <gtest/gtest.h>

#include <stdexcept>

#include "analyzer/live/in_parallel.h"

namespace {

TEST(InParallel, DoesEachOnce) {
  std::vector<int> done(100);
  traintrace::in_parallel(done.size(), [&](size_t i) { ++done[i]; });
  EXPECT_EQ(done, std::vector<int>(100, 1));
  traintrace::in_parallel(0, [](size_t) { FAIL(); });
}

TEST(InParallel, ThrowsOnceTheOthersAreDone) {
  std::vector<int> done(100);
  const auto work = [&](size_t i) {
    if (i % 3 == 1) {
      throw std::runtime_error("not this one");
    }
    ++done[i];
  };
  EXPECT_THROW(traintrace::in_parallel(done.size(), work), std::runtime_error);
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i], i % 3 == 1 ? 0 : 1) << i;
  }
}

}  // namespace
