// What many processes are looked at with: all of them, whatever becomes of one.
#include <gtest/gtest.h>

#include <future>
#include <new>

#include "analyzer/live/in_time.h"

namespace traintrace {
namespace {

using Clock = std::chrono::steady_clock;
using Works = std::vector<std::function<int()>>;

constexpr auto kLong = std::chrono::seconds(100);

TEST(InTime, DoesEachOnce) {
  std::atomic<int> calls = 0;
  Works works;
  for (int i = 0; i < 1000; ++i) {
    works.emplace_back([&calls, i] { return ++calls, i; });
  }
  const auto done = in_time(std::move(works), Clock::now() + kLong);
  ASSERT_EQ(done.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(done[static_cast<size_t>(i)], i);
  }
  EXPECT_EQ(calls, 1000);
  EXPECT_TRUE(in_time(Works(), Clock::now() + kLong).empty());
  EXPECT_FALSE(somebody_hangs());
}

TEST(InTime, WhoThrowsHasNothing) {
  Works works(100, []() -> int { throw std::bad_alloc(); });
  works[7] = [] { return 7; };
  const auto done = in_time(std::move(works), Clock::now() + kLong);
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i], i == 7 ? std::optional(7) : std::nullopt);
  }
  EXPECT_FALSE(somebody_hangs());
}

TEST(InTime, WhoHangsIsLeftBehindAndHoldsUpNobody) {
  static auto& forever = *new std::promise<void>;
  static const auto& never = *new std::shared_future<void>(forever.get_future());
  Works works(100, [] { return never.wait(), 1; });
  works.back() = [] { return 2; };
  const auto done = in_time(std::move(works), Clock::now() + std::chrono::milliseconds(500));
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i], i == 99 ? std::optional(2) : std::nullopt);
  }
  EXPECT_TRUE(somebody_hangs());
  forever.set_value();
}

}  // namespace
}  // namespace traintrace
