// uses: analyzer
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

using Lines = std::vector<std::string>;

// What the evidence of the only finding of that code says so.
template <class Says>
Lines evidence_in(const std::string& text, std::string_view code, Says says) {
  Result<DumpText> dump = parse_dump(text, "test");
  EXPECT_TRUE(dump);
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  Lines lines;
  bool found = false;
  for (const Finding& finding : judged->findings) {
    found = found || finding.code == code;
    std::copy_if(finding.evidence.begin(), finding.evidence.end(), std::back_inserter(lines), says);
  }
  EXPECT_TRUE(found) << code;
  return lines;
}

Lines hints_in(const std::string& text, std::string_view code) {
  return evidence_in(text, code,
                     [](const std::string& line) { return line.starts_with("hint: "); });
}

// What a call is to its framework.
Lines words_in(const std::string& text, std::string_view code) {
  return evidence_in(text, code, [](const std::string& line) {
    return line.find(" called ncc") != line.npos && line.find(" as ") != line.npos;
  });
}

const std::string kPython = "+0.5 0-3 polls cudaStreamQuery @train.py:9:main\n";

std::string hang_at(const std::string& stack, const std::string& before = kPython,
                    const std::string& call = "ncclAllReduce") {
  return "ranks 0-3\nmodule 0x7f00-0x8000 path=/usr/lib/libtorch_cuda.so\n"
         "communicator dp members=0-3\n" +
         before + "+1 0,1,3 enqueues " + call + " on dp @" + stack +
         "\n+1 2 polls cudaStreamQuery @mining.py:41:hard_examples\nend +40\n";
}

TEST(FrameworkHints, NameWhatTheCallsShow) {
  const auto hints = hints_in(hang_at("0x7f10"), "collective.missing-rank");
  ASSERT_EQ(hints.size(), 1U);
  EXPECT_NE(hints[0].find("find_unused_parameters"), std::string::npos);
}

// It waits for a socket, say: none of its calls came of a pass that differed.
TEST(FrameworkHints, SayNothingOfGradientsWhereTheRankIsInNoCall) {
  EXPECT_TRUE(hints_in("ranks 0-3\nmodule 0x7f00-0x8000 path=/usr/lib/libtorch_cuda.so\n"
                       "communicator dp members=0-3\n" +
                           kPython +
                           "+1 0,1,3 enqueues ncclAllReduce on dp @0x7f10\n"
                           "+1 2 calls cudaStreamSynchronize @train.py:74:loop\nend +40\n",
                       "collective.missing-rank")
                  .empty());
}

std::string exit_with(const std::string& status) {
  return "ranks 0-3\nmodule 0x7f00-0x8000 path=/usr/lib/libtorch_cuda.so\n"
         "communicator dp members=0-3\n" +
         kPython +
         "+1 0-3 calls ncclAllReduce on dp @0x7f10\n+2 0,1,3 enqueues ncclAllReduce on dp @0x7f10\n"
         "+2 2 exits status=" +
         status + "\nend +40\n";
}

TEST(FrameworkHints, NameJoinOnlyWhereTheRankEndedWell) {
  EXPECT_EQ(hints_in(exit_with("0"), "collective.early-exit").size(), 1U);
  EXPECT_TRUE(hints_in(exit_with("1"), "collective.early-exit").empty());
}

TEST(FrameworkHints, SayNothingOfGradientsWhereBuffersAreSent) {
  EXPECT_TRUE(hints_in(hang_at("/x/dist-packages/torch/nn/parallel/distributed.py:9:_sync_buffers"),
                       "collective.missing-rank")
                  .empty());
}

// Flight Recorder has no frames of a thread without Python.
TEST(FrameworkHints, KnowTheBucketsOfDumps) {
  const std::string dumps =
      "ranks 0-3\nfact source flight-recorder\ncommunicator dp members=0-3\n"
      "+0.5 0-3 calls ncclAllReduce on dp @train.py:9:main\n"
      "+1 0,1,3 enqueues ncclAllReduce on dp count=64 type=float32 gpu=pending\n"
      "+1 2 enqueues ncclBroadcast on dp count=8 type=float32 gpu=pending @train.py:8:main\n"
      "end +400\n";
  EXPECT_EQ(hints_in(dumps, "collective.operation-mismatch").size(), 1U);
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

// Steps 4 and 5 of each of the ranks that wait; in step 4 all call three times.
std::string steps_with(const std::string& call, const std::string& stack,
                       const std::string& ranges = "") {
  std::string text =
      "ranks 0-3\nmodule 0x7f00-0x8000 path=/usr/lib/libtorch_cuda.so\n"
      "communicator dp members=0-3\n" +
      ranges + kPython;
  for (const char* const rank : {"0", "1", "2", "3"}) {
    text += std::string("+1 ") + rank + "/1 * step step=4\n+2 " + rank + "/1 * step step=5\n";
  }
  return text + "+1.5 0-3 calls " + call + " on dp x3 @" + stack + "\n+2.1 0-3 calls " + call +
         " on dp @" + stack + "\n+2.2 0,1,3 enqueues " + call + " on dp @" + stack +
         "\n+2.2 2 polls cudaStreamQuery @mining.py:41:hard_examples\nend +40\n";
}

const std::string kFsdp = "/x/torch/distributed/fsdp/";

TEST(FrameworkWords, NumberTheBucketsOfAStep) {
  EXPECT_EQ(words_in(steps_with("ncclAllReduce", "0x7f10"), "collective.missing-rank"),
            Lines{"rank 0 called ncclAllReduce #5 as DistributedDataParallel's gradient bucket 1 "
                  "of step 5; the step before had 3 of them"});
  EXPECT_EQ(words_in(hang_at("0x7f10"), "collective.missing-rank"),
            Lines{"rank 0 called ncclAllReduce #1 as DistributedDataParallel's gradient bucket"})
      << "the job tells no steps";
  EXPECT_EQ(words_in(steps_with("ncclAllReduce type=int32", "0x7f10"), "collective.missing-rank"),
            Lines())
      << "which parameters were used";
}

TEST(FrameworkWords, SayNothingOfBucketsWhereStacksDoNot) {
  EXPECT_EQ(words_in(hang_at("0x7f10", ""), "collective.missing-rank"), Lines())
      << "no Python was recorded";
  EXPECT_EQ(words_in(hang_at("0x7f10", kPython, "ncclAllGather"), "collective.missing-rank"),
            Lines());
}

TEST(FrameworkWords, SayWhatFsdpDoes) {
  EXPECT_EQ(words_in(steps_with("ncclAllGather",
                                kFsdp + "_flat_param.py:9:FlatParamHandle._all_gather_flat_param," +
                                    kFsdp + "_runtime_utils.py:8:_pre_forward,train.py:3:main"),
                     "collective.missing-rank"),
            Lines{"rank 0 called ncclAllGather #5 as FSDP's all-gather of a unit's parameters, "
                  "call 2 of step 5; the step before had 3 of them"});
  const std::string in_unit =
      "range 1 \"FSDP::post_backward_reduce (layers.3)\"\nopen-range 1 at=+2.15 range=1\n";
  const Lines words =
      words_in(steps_with("ncclReduceScatter",
                          kFsdp + "_fully_shard/_fsdp_collectives.py:9:foreach_reduce", in_unit),
               "collective.missing-rank");
  EXPECT_EQ(words, Lines{"rank 0 called ncclReduceScatter #5 as FSDP's reduction of a unit's "
                         "gradients, call 2 of step 5, in its range FSDP::post_backward_reduce "
                         "(layers.3); the step before had 3 of them"});
}

TEST(FrameworkWords, SayNothingOfAJobsOwnCalls) {
  EXPECT_EQ(
      words_in(steps_with("ncclAllReduce", "train.py:118:train_step"), "collective.missing-rank"),
      Lines());
  EXPECT_EQ(words_in(steps_with("ncclAllReduce", "/x/my/_flat_param.py:9:_all_gather_flat_param"),
                     "collective.missing-rank"),
            Lines());
}

TEST(FrameworkWords, SayWhatAPipelineDoes) {
  EXPECT_EQ(words_in("ranks 0-1\ncommunicator pp members=0-1\n"
                     "+1 0/1 * step step=4\n+1 1/1 * step step=4\n"
                     "+1.1 0 calls ncclRecv on pp peer=1 "
                     "@/x/pipeline_parallel/p2p_communication.py:9:recv_backward\n"
                     "+1.1 1 calls ncclSend on pp peer=0 @pipe.py:1:f\n"
                     "+1.15 0 calls ncclSend on pp peer=1 x2 @pipe.py:2:g\n"
                     "+1.15 1 calls ncclRecv on pp peer=0 x2 @pipe.py:2:g\n"
                     "+1.2 0 enqueues ncclRecv on pp peer=1 "
                     "@/x/pipeline_parallel/p2p_communication.py:9:P2PCommunicator.recv_backward\n"
                     "+1.2 1 polls cudaStreamQuery @mining.py:41:hard_examples\nend +40\n",
                     "p2p.missing-send"),
            Lines{"rank 0 called ncclRecv #2 as the pipeline's recv_backward, call 2 of step 4"});
}

}  // namespace
}  // namespace traintrace
