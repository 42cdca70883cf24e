// uses: analyzer
// What a resumed run reads again.
#include "analyzer/numbers/numbers_diff.h"
#include "analyzer/reporters/diff/diff_numbers.h"
#include "tests/unit/checked_job.h"

namespace traintrace::testing {
namespace {

// Two ranks that send the batches `from` to before `to` of a sequence of their own, in 10 s.
Job run_of(int start_s, int from, int to, int shift = 0) {
  Job job(2);
  for (int batch = from; batch < to; ++batch) {
    for (int rank = 0; rank < 2; ++rank) {
      job.line(fmt::format("+{}ms {}/1 * batchHash bytes=4096 value=0x{:x} @data.py:7:load",
                           start_s * 1000 + (batch - from) * 10, rank,
                           0x1000 + 1000 * ((rank + shift) % 2) + batch));
    }
  }
  return job;
}

std::string again_in(const Job& earlier, const Job& later,
                     SameStart same_start = SameStart::kAnotherRun) {
  const auto a = earlier.run();
  const auto b = later.run();
  std::string text;
  for (const ReadAgain& again :
       read_again(sent_batches(*a, numbers_of(*a)), *b, numbers_of(*b), same_start)) {
    text += fmt::format("{}: {} of {} of {}, {} is {}/{} of {}", again.place, again.count,
                        again.all, rank_list(again.ranks), again.rank.value, again.number,
                        again.of_number, again.earlier_rank.value);
  }
  return text;
}

TEST(ReadAgain, IsWhatFollowsTheCheckpoint) {
  EXPECT_EQ(again_in(run_of(1, 0, 40), run_of(50, 30, 70)),
            "data.py:7 in load: 20 of 80 of 0,1, 0 is 31/40 of 0");
}

TEST(ReadAgain, IsNothingOfAPositionThatWasRestored) {
  EXPECT_EQ(again_in(run_of(1, 0, 40), run_of(50, 40, 80)), "");
}

TEST(ReadAgain, IsNothingOfTwoRunsThatDoTheSame) {
  EXPECT_EQ(again_in(run_of(1, 0, 40), run_of(50, 0, 60)), "");
  EXPECT_EQ(again_in(run_of(1, 0, 40), run_of(50, 0, 60), SameStart::kReadAgain),
            "data.py:7 in load: 80 of 120 of 0,1, 0 is 1/40 of 0");
}

// The ranks changed their parts of the data.
TEST(ReadAgain, IsAnotherRanksPart) {
  EXPECT_EQ(again_in(run_of(1, 0, 40), run_of(50, 0, 60, 1)),
            "data.py:7 in load: 80 of 120 of 0,1, 0 is 1/40 of 1");
}

// A mask that is sent once, at the start.
TEST(ReadAgain, IsNothingOfAConstant) {
  EXPECT_EQ(again_in(run_of(1, 0, 1), run_of(50, 0, 1), SameStart::kReadAgain), "");
}

// Epochs of 100 equal batches: it goes on after 250, which is the middle of the third.
TEST(ReadAgain, IsNothingOfEpochsThatGoOn) {
  const auto epochs = [](int start_s, int from, int to) {
    Job job(2);
    for (int batch = from; batch < to; ++batch) {
      for (int rank = 0; rank < 2; ++rank) {
        job.line(fmt::format("+{}ms {}/1 * batchHash bytes=4096 value=0x{:x} @data.py:7:load",
                             start_s * 1000 + (batch - from) * 10, rank,
                             0x1000 + 1000 * rank + batch % 100));
      }
    }
    return job;
  };
  EXPECT_EQ(again_in(epochs(1, 0, 250), epochs(50, 250, 300), SameStart::kReadAgain), "");
  EXPECT_EQ(again_in(epochs(1, 0, 250), epochs(50, 230, 300), SameStart::kReadAgain),
            "data.py:7 in load: 40 of 140 of 0,1, 0 is 231/250 of 0");
}

// The same data from the start on, and a first loss.
std::string told_from_start(float first_loss) {
  Job before = run_of(1, 0, 40);
  Job after = run_of(50, 0, 40);
  for (int step = 0; step < 20; ++step) {
    for (Job* const job : {&before, &after}) {
      const float loss = (job == &before ? 0.7F : first_loss) - 0.01F * static_cast<float>(step);
      job->line(fmt::format("+{}ms 0/1 * scalarRead bytes=4 value=0x{:x} @train.py:20:step",
                            (job == &before ? 1000 : 50000) + step * 10,
                            std::bit_cast<uint32_t>(loss)));
    }
  }
  const auto a = before.run();
  const auto b = after.run();
  return numbers_text(diff_numbers(*a, numbers_of(*a), *b, numbers_of(*b)));
}

TEST(ReadAgain, FromTheStartIsToldIfTheWeightsAreOthers) {
  EXPECT_NE(told_from_start(0.3F).find("data: B begins with 80 batches that A sent before it"),
            std::string::npos);
  EXPECT_NE(told_from_start(0.3F).find("if B resumed A's work, its data began again"),
            std::string::npos);
  EXPECT_EQ(told_from_start(0.7F).find("data:"), std::string::npos);
  EXPECT_EQ(told_from_start(0.7000001F).find("data:"), std::string::npos);
}

TEST(ReadAgain, IsToldByDiff) {
  const auto a = run_of(1, 0, 40).run();
  const auto b = run_of(50, 30, 70).run();
  const NumbersDiff diff = diff_numbers(*a, numbers_of(*a), *b, numbers_of(*b));
  const std::string told =
      "data: B begins with 20 batches that A sent before it, at data.py:7 in load: 20 of the 80 of "
      "ranks 0,1; the first of rank 0 is batch 31 of 40 of A's rank 0\n";
  EXPECT_NE(numbers_text(diff).find(told), std::string::npos) << numbers_text(diff);
  const nlohmann::ordered_json json = numbers_json(diff)["read_again"][0];
  EXPECT_EQ(json["again_count"], 20);
  EXPECT_EQ(json["earlier_number"], 31);
}

}  // namespace
}  // namespace traintrace::testing
