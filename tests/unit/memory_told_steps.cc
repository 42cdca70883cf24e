// uses: analyzer
// The steps of the memory analysis: the job's own, if it tells any.
#include <gtest/gtest.h>

#include "analyzer/memory/history.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// Two collectives a step, which alone would be taken for a step each.
Steps steps_of_text(int steps, const std::string& mark) {
  std::string text = "ranks 0-1\ncommunicator dp members=0-1\n";
  for (int i = 0; i < steps; ++i) {
    const std::string at = "+" + std::to_string(i + 1);
    if (!mark.empty()) {
      text.append(at).append(" 0/1 * ").append(mark).append("\n");
    }
    text.append(at).append(".2 0-1 calls ncclAllReduce on dp @train.py:8:step\n");
    text.append(at).append(".4 0-1 calls ncclAllReduce on dp @train.py:8:step\n");
  }
  Result<DumpText> dump = parse_dump(text + "end +90\n", "test");
  EXPECT_TRUE(dump) << dump.error().message;
  return steps_of(dump->processes.front());
}

TEST(MemoryToldSteps, WinOverWhatLooksLikeSteps) {
  EXPECT_EQ(steps_of_text(12, "").starts.size(), 24u) << "each call looks like a step";
  const Steps told = steps_of_text(12, "step step=7");
  EXPECT_EQ(told.starts.size(), 12u);
  EXPECT_GT(told.work_end, told.last());
}

TEST(MemoryToldSteps, ThatAreFewAreNone) {
  EXPECT_EQ(steps_of_text(7, "step step=7").starts.size(), 14u);
}

}  // namespace
}  // namespace traintrace
