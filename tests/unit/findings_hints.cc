// uses: analyzer
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// The hints of the only finding of that code.
std::vector<std::string> hints_in(const std::string& text, std::string_view code) {
  Result<DumpText> dump = parse_dump(text, "test");
  EXPECT_TRUE(dump);
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  std::vector<std::string> hints;
  bool found = false;
  for (const Finding& finding : judged->findings) {
    found = found || finding.code == code;
    std::copy_if(finding.evidence.begin(), finding.evidence.end(), std::back_inserter(hints),
                 [](const std::string& line) { return line.starts_with("hint: "); });
  }
  EXPECT_TRUE(found) << code;
  return hints;
}

std::string hang_at(const std::string& stack) {
  return "ranks 0-3\nmodule 0x7f00-0x8000 path=/usr/lib/libtorch_cuda.so\n"
         "communicator dp members=0-3\n"
         "+1 0,1,3 enqueues ncclAllReduce on dp @" +
         stack + "\n+1 2 polls cudaStreamQuery @mining.py:41:hard_examples\nend +40\n";
}

TEST(FrameworkHints, NameWhatTheCallsShow) {
  const auto hints =
      hints_in(hang_at("/x/dist-packages/torch/nn/parallel/distributed.py:9:_sync_buffers"),
               "collective.missing-rank");
  ASSERT_EQ(hints.size(), 1U);
  EXPECT_NE(hints[0].find("find_unused_parameters"), std::string::npos);
}

TEST(FrameworkHints, KnowTheThreadsOfTheAutogradEngine) {
  EXPECT_EQ(hints_in(hang_at("0x7f10"), "collective.missing-rank").size(), 1U);
}

TEST(FrameworkHints, SayNothingOfOtherCalls) {
  EXPECT_TRUE(hints_in(hang_at("train.py:118:train_step"), "collective.missing-rank").empty());
}

TEST(FrameworkHints, NameBatchesOfMessages) {
  const auto hints = hints_in(
      "ranks 0-1\ncommunicator pp members=0-1\n"
      "+1 0 enqueues ncclRecv on pp peer=1 @/x/dist-packages/torch/distributed/d.py:9:"
      "batch_isend_irecv,pipe.py:3:exchange\n"
      "+1 1 polls cudaStreamQuery @mining.py:41:hard_examples\nend +40\n",
      "p2p.missing-send");
  ASSERT_EQ(hints.size(), 1U);
  EXPECT_NE(hints[0].find("batch_isend_irecv"), std::string::npos);
}

}  // namespace
}  // namespace traintrace
