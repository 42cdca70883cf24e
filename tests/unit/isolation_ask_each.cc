// uses: analyzer
#include "analyzer/isolation/ask_each.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>

namespace traintrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::vector<std::string> names(int count) {
  std::vector<std::string> all(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    all[static_cast<size_t>(i)] = std::to_string(i);
  }
  return all;
}

// Nobody comes back from one whose number is a multiple of `every`.
auto silent_each(int every) {
  return [every](const std::string& name) {
    while (std::stoi(name) % every == 0) {
      pause();
    }
  };
}

TEST(AnsweringAmong, AllAnswer) {
  const std::vector<std::string> all = names(3000);
  const auto answering = answering_among(all, milliseconds(20000), [](const std::string&) {});
  EXPECT_EQ(answering, std::set<std::string>(all.begin(), all.end()));
  EXPECT_TRUE(answering_among({}, milliseconds(10), [](const std::string&) {}).empty());
}

TEST(AnsweringAmong, ThoseThatAreSilentHoldUpNobody) {
  const auto begun = steady_clock::now();
  const auto answering = answering_among(names(1000), milliseconds(3000), silent_each(10));
  EXPECT_EQ(answering.size(), 900U);
  EXPECT_FALSE(answering.contains("10"));
  EXPECT_TRUE(answering.contains("999"));
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(30));
}

TEST(AnsweringAmong, MoreSilentOnesThanAreAskedAtOnce) {
  const auto answering = answering_among(names(1000), milliseconds(2000), silent_each(5));
  EXPECT_EQ(answering.size(), 800U);
}

TEST(AnsweringAmong, WhereNothingAnswersItEnds) {
  const auto begun = steady_clock::now();
  EXPECT_TRUE(answering_among(names(5000), milliseconds(500), silent_each(1)).empty());
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(30));
}

}  // namespace
}  // namespace traintrace
