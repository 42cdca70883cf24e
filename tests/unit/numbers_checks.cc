// uses: analyzer
// What NCCL's operations gave, compared with what they were given.
#include "analyzer/numbers/numbers_diff.h"
#include "analyzer/reporters/diff/diff_numbers.h"
#include "analyzer/reporters/tables/report_check.h"
#include "tests/unit/checked_job.h"

namespace traintrace::testing {
namespace {

TEST(Checks, OfHealthyJobsShowNothing) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    Job job(2 + static_cast<int>(random.below(7)));
    job.type = static_cast<Type>(random.below(3));
    job.average = random.below(2) == 0;
    const double scale = std::pow(10, static_cast<double>(random.below(7)) - 5);
    const auto ranks = static_cast<size_t>(job.ranks());
    for (int step = 0; step < 4; ++step) {
      job.line_number = 10;
      job.all_reduce(random.gradients(job, 1 + random.below(500), scale));
      job.line_number = 20;
      job.reduce_scatter(random.gradients(job, ranks * (1 + random.below(100)), scale));
      job.line_number = 30;
      job.all_gather(random.gradients(job, 70, scale), [](int, int, Data&) {});
      job.all_to_all(random.gradients(job, 70, scale), [](int, int, Data&) {});
      job.broadcast(random.gradients(job, 70, scale).front(), [](int, int, Data&) {});
    }
    EXPECT_EQ(found_in(job), Lines()) << seed;
  }
}

// Each element rounds the same way.
TEST(Checks, OfEqualElementsShowNothing) {
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBfloat16}) {
    for (const int ranks : {2, 3, 8, 64}) {
      Job job(ranks);
      job.type = type;
      for (const double value : {0.1, 1.0 / 3, 0.7, 3e-7}) {
        const Data same(100, rounded(type, value));
        for (const bool average : {false, true}) {
          job.average = average;
          job.line_number += 1;
          job.all_reduce(std::vector(static_cast<size_t>(ranks), same));
        }
      }
      EXPECT_EQ(found_in(job), Lines()) << name_of(type) << " " << ranks;
    }
  }
}

TEST(ResultDiffers, NamesTheMinorityOfThreeOrMore) {
  for (const int ranks : {2, 3, 4, 8}) {
    Random random(1);
    Job job(ranks);
    train(job, random, 3);
    job.all_reduce(random.gradients(job, kCount),
                   [](int rank, Data& result) { result[17] *= rank == 1 ? 1.0000001 : 1; });
    train(job, random, 2);
    EXPECT_EQ(found_in(job),
              (ranks == 2 ? Lines{"error numeric.result-differs proof side=0 side=1 seq=4"}
                          : Lines{fmt::format("error numeric.result-differs likely culprits=1 "
                                              "side=0{} side=1 seq=4",
                                              ranks == 3   ? ",2"
                                              : ranks == 4 ? ",2,3"
                                                           : ",2-7")}))
        << ranks;
  }
}

TEST(ResultDiffers, NamesNoneOfTwoHalvesOrOfOthersEachTime) {
  Random random(1);
  Job halves(4);
  halves.all_reduce(random.gradients(halves, kCount),
                    [](int rank, Data& result) { result[0] += rank < 2 ? 1 : 0; });
  EXPECT_EQ(found_in(halves),
            (Lines{"error numeric.result-differs proof side=0,1 side=2,3 seq=1"}));
  Job others(4);
  for (const int wrong : {1, 2}) {
    others.all_reduce(random.gradients(others, kCount),
                      [&](int rank, Data& result) { result[0] += rank == wrong ? 1 : 0; });
  }
  EXPECT_EQ(found_in(others),
            (Lines{"error numeric.result-differs proof side=0,2,3 side=1 seq=1"}));
}

// The bits of a NaN are anybody's.
TEST(ResultDiffers, NotForNan) {
  Random random(1);
  Job job(4);
  job.all_reduce(random.gradients(job, kCount),
                 [](int rank, Data& result) { result[3] = rank == 1 ? -kNan : kNan; });
  for (const std::string& line : found_in(job)) {
    EXPECT_EQ(line.find("result-differs"), std::string::npos) << line;
  }
}

// But one rank alone cannot have any of finite inputs.
TEST(ResultDiffers, ForNanOnOneRankAlone) {
  Random random(1);
  Job job(4);
  job.all_reduce(random.gradients(job, kCount),
                 [](int rank, Data& result) { result[3] = rank == 1 ? kNan : result[3]; });
  EXPECT_EQ(found_in(job), (Lines{"error numeric.result-differs likely culprits=1 side=0,2,3 "
                                  "side=1 seq=1"}));
}

// What lies in the buffers of an operation that was aborted is no result of it.
TEST(ResultDiffers, NotAfterAnAbort) {
  Random random(1);
  for (const bool aborted : {false, true}) {
    Job job(4);
    train(job, random, 2);
    job.all_reduce(random.gradients(job, kCount),
                   [](int rank, Data& result) { result[0] += rank; });
    if (aborted) {
      job.line("+1.005 0-3 enqueues ncclAllReduce on dp x3 every=10ms");
      job.line("+1.5 0-3 calls ncclCommAbort on dp");
    }
    EXPECT_EQ(found_in(job).empty(), aborted);
  }
}

TEST(DeliveredDiffers, IsTheReceiversSideWhereOthersGotIt) {
  Random random(1);
  Job job(4);
  const auto wrong_at_2 = [](int from, int to, Data& data) {
    data[5] = from == 0 && to == 2 ? 0 : data[5];
  };
  job.all_gather(random.gradients(job, kCount), [](int, int, Data&) {});
  job.all_gather(random.gradients(job, kCount), wrong_at_2);
  EXPECT_EQ(found_in(job),
            (Lines{"error numeric.delivered-differs likely culprits=2 side=2 seq=2"}));
  Job broadcast(4);
  broadcast.broadcast(random.gradients(broadcast, kCount).front(), wrong_at_2);
  EXPECT_EQ(found_in(broadcast),
            (Lines{"error numeric.delivered-differs likely culprits=2 side=2 seq=1"}));
}

// Of three ranks: its own part is wrong as well, which both others got right.
TEST(DeliveredDiffers, IsTheReceiversSideWhereAllOfItIsWrong) {
  Random random(1);
  Job job(3);
  job.all_gather(random.gradients(job, kCount),
                 [](int, int to, Data& data) { data[5] += to == 1 ? 1 : 0; });
  EXPECT_EQ(found_in(job),
            (Lines{"error numeric.delivered-differs likely culprits=1 side=1 seq=1"}));
}

TEST(DeliveredDiffers, IsTheSendersSideWhereAllGotTheSame) {
  Random random(1);
  Job job(4);
  job.all_gather(random.gradients(job, kCount), [](int from, int to, Data& data) {
    if (from == 3 && to != 3) {
      data.assign(data.size(), 0);
    }
  });
  EXPECT_EQ(found_in(job),
            (Lines{"error numeric.delivered-differs likely culprits=3 side=0-2 seq=1"}));
}

TEST(DeliveredDiffers, IsNoSideOfTwoRanksOrOfSeveral) {
  Random random(1);
  Job two(2);
  const Data sent = random.gradients(two, kCount).front();
  Data got = sent;
  got[100] += 1;
  two.message(0, 1, 1, sent, sent);
  two.message(0, 1, 2, sent, got);
  EXPECT_EQ(found_in(two), (Lines{"error numeric.delivered-differs proof side=1 seq=2"}));
  Job job(4);
  job.all_gather(random.gradients(job, kCount), [](int from, int to, Data& data) {
    data[7] += (from == 1 && to == 2) || (from == 0 && to == 3) ? 1 : 0;
  });
  EXPECT_EQ(found_in(job), (Lines{"error numeric.delivered-differs proof side=2,3 seq=1"}));
}

TEST(DeliveredDiffers, OfAllToAllTakesSeveralPairs) {
  Random random(1);
  Job one(4);
  one.all_to_all(random.gradients(one, kCount),
                 [](int from, int to, Data& data) { data[9] += from == 1 && to == 2 ? 1 : 0; });
  EXPECT_EQ(found_in(one), (Lines{"error numeric.delivered-differs proof side=2 seq=1"}));
  Job receiver(4);
  receiver.all_to_all(random.gradients(receiver, kCount),
                      [](int, int to, Data& data) { data[9] += to == 2 ? 1 : 0; });
  EXPECT_EQ(found_in(receiver),
            (Lines{"error numeric.delivered-differs likely culprits=2 side=2 seq=1"}));
}

TEST(ImpossibleResult, IsOneWithoutARanksData) {
  for (const bool average : {false, true}) {
    Random random(1);
    Job job(8);
    job.average = average;
    train(job, random, 2);
    std::vector<Data> inputs = random.gradients(job, kCount);
    std::vector<Data> others = inputs;
    others[3].assign(kCount, 0);
    const Data wrong = job.sum_of(others);
    job.all_reduce(inputs, [&](int, Data& result) { result = wrong; });
    EXPECT_EQ(found_in(job), (Lines{"error numeric.impossible-result proof side=0-7 seq=3"}));
  }
}

// In bfloat16 eight ranks' rounding may hide it from the sum of all elements.
TEST(ImpossibleResult, IsOneThatOnlyASketchShows) {
  Random random(1);
  for (const bool sketches : {false, true}) {
    for (const Type type : {Type::kBfloat16, Type::kFloat16}) {
      for (const bool average : {false, true}) {
        Job job(8);
        job.type = type;
        job.average = average;
        job.sketches = sketches;
        std::vector<Data> inputs = random.gradients(job, 1500);
        for (size_t i = 1; i < inputs[3].size(); i += 2) {
          inputs[3][i] = -inputs[3][i - 1];  // its sum is zero
        }
        std::vector<Data> others = inputs;
        others[3].assign(1500, 0);
        const Data wrong = job.sum_of(others);
        job.all_reduce(inputs, [&](int, Data& result) { result = wrong; });
        const auto run = job.run();
        const auto findings = find_in_numbers(*run, numbers_of(*run));
        EXPECT_EQ(findings.size(), sketches ? 1U : 0);
        for (const Finding& finding : findings) {
          EXPECT_EQ(finding.code, "numeric.impossible-result");
          EXPECT_NE(finding.evidence.at(0).find("as it would without the data of rank 3"),
                    std::string::npos)
              << finding.evidence.at(0);
        }
      }
    }
  }
}

TEST(ImpossibleResult, OfAReduceScatterIsOfOneShard) {
  Random random(1);
  Job job(4);
  job.reduce_scatter(random.gradients(job, 4 * kCount),
                     [](int rank, Data& result) { result[0] += rank == 2 ? 0.5 : 0; });
  EXPECT_EQ(found_in(job), (Lines{"error numeric.impossible-result proof side=2 seq=1"}));
}

TEST(ImpossibleResult, IsNanOfFiniteInputs) {
  Random random(1);
  Job job(4);
  job.type = Type::kBfloat16;
  job.all_reduce(random.gradients(job, kCount), [](int, Data& result) { result[4] = kNan; });
  EXPECT_EQ(found_in(job), (Lines{"error numeric.impossible-result proof side=0-3 seq=1"}));
}

TEST(ImpossibleResult, IsNoneThatMayOverflowOrOfMaxima) {
  Random random(1);
  Job job(4);
  job.type = Type::kFloat16;
  job.all_reduce(random.gradients(job, kCount, 20000));
  EXPECT_EQ(found_in(job), Lines());
  Job maxima(4);
  maxima.reduction = "max";
  std::vector<Data> inputs = random.gradients(maxima, kCount);
  maxima.all_reduce(inputs, [&](int, Data& result) { result = inputs[0]; });
  EXPECT_EQ(found_in(maxima), Lines());
}

// One rank's input is missing: nothing can be said.
TEST(ImpossibleResult, TakesAllInputs) {
  Job job(4);
  Random random(1);
  job.next_operation();
  const std::vector<Data> inputs = random.gradients(job, kCount);
  for (int rank = 0; rank < 4; ++rank) {
    if (rank != 2) {
      job.record(rank, format::kCheckedAllReduce, {}, inputs[static_cast<size_t>(rank)]);
    }
    job.record(rank, format::kCheckedAllReduce, {0, 1, true}, job.sum_of(inputs));
  }
  EXPECT_EQ(found_in(job), Lines());
}

// One bucket in each of some steps; from one on, one rank's input or the result is another.
NumbersDiff diff_of(int input_differs, int result_differs) {
  const auto job_with = [](int input, int result) {
    Random random(1);
    Job job(4);
    job.delay(1, 4);
    for (int step = 1; step <= 8; ++step) {
      std::vector<Data> inputs = random.gradients(job, kCount);
      inputs[1][5] += input != 0 && step >= input ? 0.25 : 0;
      job.all_reduce(inputs, [&](int, Data& sum) {
        sum[0] = result != 0 && step >= result ? std::nextafter(sum[0], 1.0F) : sum[0];
      });
    }
    return job;
  };
  const auto a = job_with(0, 0).run();
  const auto b = job_with(input_differs, result_differs).run();
  return diff_numbers(*a, numbers_of(*a), *b, numbers_of(*b));
}

TEST(DiffOfChecks, SaysWhetherARankOrTheReductionDiffersFirst) {
  const NumbersDiff input = diff_of(5, 6);
  ASSERT_EQ(input.differences.size(), 1U);
  EXPECT_EQ(
      numbers_verdict(input),
      "the first input of a collective that differs is what rank 1 gave ncclAllReduce #5 on dp "
      "at train.py:10 in step");
  EXPECT_EQ(input.differences[0].before, "ncclAllReduce #4 on dp");
  EXPECT_EQ(input.same_operations, 4U);
  const NumbersDiff result = diff_of(0, 3);
  // Rank 1 came 4 ms after the others, and two operations of 10 ms later.
  ASSERT_EQ(result.differences.size(), 1U);
  EXPECT_EQ(input.differences[0].since_a - result.differences[0].since_a, 24'000'000);
  EXPECT_EQ(
      numbers_verdict(result),
      "the first result of a collective that differs is what ncclAllReduce #3 on dp gave ranks "
      "0-3 at train.py:10 in step");
  const NumbersDiff none = diff_of(0, 0);
  EXPECT_TRUE(none.differences.empty());
  EXPECT_EQ(none.same_operations, 8U);
}

TEST(ReportByCheck, HasOneRowPerPlaceRankAndSide) {
  Job job(2);
  job.all_reduce({{3, 4}, {0, 0}});
  job.all_reduce({{6, 8}, {kNan, 1}});
  const auto run = job.run();
  const ReportTable table = report_by_check(*run, numbers_of(*run).checks);
  ASSERT_EQ(table.rows.size(), 4U);
  const auto row = [&](size_t index) {
    std::string text;
    for (size_t i = 0; i < 14; ++i) {
      const ReportCell& cell = table.rows[index][i];
      const auto* const number = std::get_if<int64_t>(&cell);
      text += (i == 0 ? "" : " ") +
              (number != nullptr ? std::to_string(*number) : std::get<std::string>(cell));
    }
    return text;
  };
  EXPECT_EQ(row(0), "train.py:10 in step dp ncclAllReduce float32 0 input 2 4 0 0 8 5 10 10");
  EXPECT_EQ(row(1), "train.py:10 in step dp ncclAllReduce float32 0 output 2 4 1 0 9 5 9 9");
  EXPECT_EQ(row(2), "train.py:10 in step dp ncclAllReduce float32 1 input 2 4 1 0 1 0 1 1");
}

}  // namespace
}  // namespace traintrace::testing
