// uses: analyzer
// Steps as the job itself tells them, by markers or by what it calls its ranges.
#include <gtest/gtest.h>

#include "analyzer/model/process/told_steps.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

using Numbers = std::vector<int64_t>;

Numbers told(const std::string& text) {
  Result<DumpText> dump = parse_dump("ranks 0\n" + text + "end +40\n", "test");
  EXPECT_TRUE(dump) << dump.error().message;
  Numbers numbers;
  for (const ToldStep& step : told_steps(dump->processes.front())) {
    numbers.push_back(step.number);
  }
  return numbers;
}

std::string pushes(const std::string& name, int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) {
    const std::string id = std::to_string(i + 1);
    text.append("range ")
        .append(id)
        .append(" \"")
        .append(name)
        .append(std::to_string(i))
        .append("\"\n");
    text.append("+").append(id).append(" 0/1 * nvtxRangePush range=").append(id).append("\n");
  }
  return text;
}

TEST(ToldSteps, NamesOfSteps) {
  EXPECT_EQ(step_number_of("step 1284"), 1284);
  EXPECT_EQ(step_number_of("ProfilerStep#3"), 3);
  EXPECT_EQ(step_number_of("Iteration: 0"), 0);
  EXPECT_EQ(step_number_of("global_step=77"), 77);
  EXPECT_EQ(step_number_of("step"), std::nullopt);
  EXPECT_EQ(step_number_of("17"), std::nullopt);
  EXPECT_EQ(step_number_of(""), std::nullopt);
  EXPECT_EQ(step_number_of("microstep 3"), std::nullopt);
  EXPECT_EQ(step_number_of("layers.17"), std::nullopt);
  EXPECT_EQ(step_number_of("step 99999999999999999999"), std::nullopt);
}

TEST(ToldSteps, AreThoseOfMarkers) {
  EXPECT_EQ(told("+1 0/1 * step step=7\n+2 0/1 * step step=8\n"), (Numbers{7, 8}));
  EXPECT_EQ(told("+1 0/1 * step step=7\n" + pushes("step ", 0, 9)), Numbers{7})
      << "what is said on purpose counts more than what is called so";
}

TEST(ToldSteps, AreThoseOfTheThreadThatToldMost) {
  EXPECT_EQ(told("+1 0/1 * step step=1\n+2 0/2 * step step=1\n+3 0/1 * step step=2\n"),
            (Numbers{1, 2}));
}

TEST(ToldSteps, AreRangesThatCountUp) {
  EXPECT_EQ(told(pushes("step ", 0, 4)), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(told(pushes("layers.", 0, 4)), Numbers());
  EXPECT_EQ(told(pushes("step ", 3, 4)), Numbers()) << "one alone says nothing";
  EXPECT_EQ(told("range 1 \"step 1\"\nrange 2 \"step 9\"\n+1 0/1 * nvtxRangePush range=1\n"
                 "+2 0/1 * nvtxRangePush range=2\n+3 0/1 * nvtxRangePush range=1\n"),
            Numbers());
}

}  // namespace
}  // namespace traintrace
