// What many processes are looked at with: all of them, whatever becomes of one.
// uses: analyzer/live/served_time.cc
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <future>
#include <iterator>
#include <new>
#include <thread>

#include "analyzer/live/in_time.h"

namespace traintrace {
namespace {

using Works = std::vector<std::function<int()>>;

constexpr auto kLong = std::chrono::seconds(100);

TEST(InTime, DoesEachOnce) {
  std::atomic<int> calls = 0;
  Works works;
  for (int i = 0; i < 1000; ++i) {
    works.emplace_back([&calls, i] { return ++calls, i; });
  }
  ServedTime time;
  const auto done = in_time(std::move(works), time, kLong);
  ASSERT_EQ(done.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(done[static_cast<size_t>(i)], i);
  }
  EXPECT_EQ(calls, 1000);
  EXPECT_TRUE(in_time(Works(), time, kLong).empty());
  EXPECT_FALSE(somebody_hangs());
}

TEST(InTime, WhoThrowsHasNothing) {
  Works works(100, []() -> int { throw std::bad_alloc(); });
  works[7] = [] { return 7; };
  ServedTime time;
  const auto done = in_time(std::move(works), time, kLong);
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
  ServedTime time;
  const auto done = in_time(std::move(works), time, std::chrono::milliseconds(500));
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i], i == 99 ? std::optional(2) : std::nullopt);
  }
  EXPECT_TRUE(somebody_hangs());
  forever.set_value();
}

// Who sleeps is not ready to run: it waits for somebody else, and its time counts.
auto count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}
#if defined(__SANITIZE_THREAD__)
constexpr std::ptrdiff_t kThreadsAlone = 2;  // it has one of its own, from the first thread on
#else
constexpr std::ptrdiff_t kThreadsAlone = 1;
#endif

// Who was left behind by the test before is ready to run once more, to end.
void wait_until_alone() {
  while (count_threads() > kThreadsAlone) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ServedTime, CountsWaitingInFull) {
  wait_until_alone();
  const auto before = ServedTime::Clock::now();
  ServedTime time;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto elapsed = time.elapsed();
  EXPECT_GE(elapsed, std::chrono::milliseconds(50));
  EXPECT_LE(elapsed, ServedTime::Clock::now() - before);
}

TEST(ServedTime, IsAtLeastAQuarterOfTheWallClock) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  busy.reserve(8);
  for (int i = 0; i < 8; ++i) {
    busy.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  const auto before = ServedTime::Clock::now();
  ServedTime time;
  std::chrono::nanoseconds passed = {};
  while (passed < std::chrono::milliseconds(300)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto elapsed = time.elapsed();
    passed = ServedTime::Clock::now() - before;
    EXPECT_GE(elapsed, passed / 5);
    EXPECT_LE(elapsed, passed);
  }
  stop = true;
  for (std::thread& thread : busy) {
    thread.join();
  }
}

}  // namespace
}  // namespace traintrace
