// uses: analyzer
// What ranks give to NCCL's operations: NaN, zeros, spikes, and the same as others.
#include "tests/unit/checked_job.h"

namespace traintrace::testing {
namespace {

// From a step on one rank's gradient has a NaN, and then all weights have.
void poison(Job& job, Random& random, const Ranks& who, int steps) {
  for (int step = 0; step < steps; ++step) {
    std::vector<Data> inputs = random.gradients(job, kCount);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      if (step > 0 || contains(who, Rank{rank})) {
        inputs[static_cast<size_t>(rank)][3] = kNan;
      }
    }
    job.all_reduce(inputs);
  }
}

TEST(FirstNonfinite, IsTheRankThatNoneHadSentOne) {
  Random random(1);
  Job job(4);
  train(job, random, 10);
  poison(job, random, {Rank{2}}, 3);
  EXPECT_EQ(found_in(job), (Lines{"error numeric.first-nonfinite proof culprits=2 side=2 "
                                  "side=0,1,3 seq=11"}));
}

TEST(FirstNonfinite, OfSeveralAtOnceNamesNone) {
  Random random(1);
  Job job(4);
  train(job, random, 10);
  poison(job, random, {Rank{0}, Rank{2}}, 3);
  EXPECT_EQ(found_in(job), (Lines{"error numeric.first-nonfinite proof side=0,2 side=1,3 "
                                  "seq=11"}));
  Job all(4);
  train(all, random, 10);
  poison(all, random, {Rank{0}, Rank{1}, Rank{2}, Rank{3}}, 3);
  EXPECT_EQ(found_in(all), (Lines{"error numeric.first-nonfinite proof side=0-3 seq=11"}));
}

// A loss scaler skips such a step, and the next is finite again.
TEST(FirstNonfinite, IsNoSkippedStep) {
  Random random(1);
  Job job(4);
  train(job, random, 10);
  poison(job, random, {Rank{2}}, 1);
  EXPECT_EQ(found_in(job), Lines());
  train(job, random, 5);
  poison(job, random, {Rank{1}}, 1);
  train(job, random, 5);
  EXPECT_EQ(found_in(job), Lines());
  // After more than it takes to forget it, a true one.
  train(job, random, 110);
  poison(job, random, {Rank{3}}, 4);
  EXPECT_EQ(found_in(job).front().substr(0, 52),
            "error numeric.first-nonfinite proof culprits=3 side=");
}

// A skipped step, and soon after a NaN that stays: whether the first one caused it is not known.
TEST(FirstNonfinite, MayHaveBeenBroughtBefore) {
  Random random(1);
  Job job(4);
  train(job, random, 10);
  poison(job, random, {Rank{2}}, 1);
  train(job, random, 3);
  poison(job, random, {Rank{1}}, 4);
  EXPECT_EQ(found_in(job), Lines());
}

TEST(FirstNonfinite, IsKnownOfAFailedJobWithoutAScaler) {
  Random random(1);
  Job job(4);
  train(job, random, 10);
  poison(job, random, {Rank{2}}, 1);
  job.line("+10 0-3 exits status=1");
  EXPECT_EQ(found_in(job), (Lines{"warning numeric.first-nonfinite likely culprits=2 side=2 "
                                  "side=0,1,3 seq=11"}));
}

TEST(FirstNonfinite, IsNoMaximumNoMaskAndNoSmallNumber) {
  Random random(1);
  Job maxima(4);
  maxima.reduction = "max";
  train(maxima, random, 5);
  poison(maxima, random, {Rank{2}}, 4);
  EXPECT_EQ(found_in(maxima), Lines());
  Job small(4);
  for (int step = 0; step < 8; ++step) {
    std::vector<Data> losses = random.gradients(small, 1);
    losses[1][0] = step < 4 ? losses[1][0] : kNan;
    small.all_reduce(losses);
  }
  EXPECT_EQ(found_in(small), Lines());
  Job mask(4);  // from the first step on
  poison(mask, random, {Rank{1}}, 6);
  EXPECT_EQ(found_in(mask), Lines());
}

TEST(FirstNonfinite, IsNoPadding) {
  Random random(1);
  Job job(4);
  for (int step = 0; step < 8; ++step) {
    std::vector<Data> inputs = random.gradients(job, 4 * kCount);
    inputs[1].back() = step < 4 ? 0 : kNan;
    job.reduce_scatter(inputs);
  }
  EXPECT_EQ(found_in(job), Lines());
}

// A table of metrics has NaN for what a rank has not seen; its weights are fine.
TEST(FirstNonfinite, IsNoTableThatHarmsNobody) {
  Random random(1);
  Job job(4);
  for (int step = 0; step < 12; ++step) {
    job.all_reduce(random.gradients(job, kCount));
    std::vector<Data> tables = random.gradients(job, kCount);
    tables[1][7] = step < 4 ? tables[1][7] : kNan;
    job.all_gather(tables, [](int, int, Data&) {});
  }
  EXPECT_EQ(found_in(job), Lines());
}

// With a shard of the weights that has one, all gradients have some from then on.
TEST(FirstNonfinite, IsAShardThatSpoilsAllGradients) {
  Random random(1);
  Job job(4);
  for (int step = 0; step < 12; ++step) {
    std::vector<Data> shards = random.gradients(job, kCount);
    std::vector<Data> gradients = random.gradients(job, kCount);
    if (step >= 4) {
      shards[1][7] = kNan;
      for (Data& each : gradients) {
        each[3] = kNan;
      }
    }
    job.all_gather(shards, [](int, int, Data&) {});
    job.all_reduce(gradients);
  }
  EXPECT_EQ(found_in(job).front().substr(0, 57),
            "error numeric.first-nonfinite proof culprits=1 side=1 sid");
}

// One rank's gradients become far too large, and a step later all weights are not finite.
TEST(FirstNonfinite, IsOfTheRankThatAloneBlewUpBefore) {
  for (const bool alone : {true, false}) {
    Random random(1);
    Job job(4);
    train(job, random, 10);
    std::vector<Data> inputs = random.gradients(job, kCount);
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      if (rank == 2 || !alone) {
        inputs[rank][5] = 1e30;
      }
    }
    job.all_reduce(inputs);
    poison(job, random, {Rank{0}, Rank{1}, Rank{2}, Rank{3}}, 3);
    EXPECT_EQ(found_in(job).front(),
              alone ? "warning numeric.first-nonfinite likely culprits=2 side=0-3 seq=12"
                    : "error numeric.first-nonfinite proof side=0-3 seq=12");
  }
}

// What came by an operation that was not checked may have had it.
TEST(FirstNonfinite, NamesNoneWhereNotAllWasChecked) {
  Random random(1);
  Job job(4);
  train(job, random, 10);
  job.unchecked_all_reduce();
  poison(job, random, {Rank{2}}, 3);
  EXPECT_EQ(found_in(job), (Lines{"warning numeric.first-nonfinite possible side=2 "
                                  "side=0,1,3 seq=12"}));
}

// Steps whose gradients are finite on each rank, and larger together than half precision goes; what
// follows is not finite any more.
void overflow(Job& job, Random& random, int steps, bool goes_on) {
  for (int step = 0; step < steps; ++step) {
    std::vector<Data> inputs = random.gradients(job, kCount);
    for (Data& data : inputs) {
      data[7] = goes_on && step > 0 ? kNan : 20000;
    }
    job.all_reduce(inputs);
  }
}

TEST(FirstNonfinite, IsTheSumThatOverflows) {
  Random random(1);
  Job job(4);
  job.type = Type::kFloat16;
  train(job, random, 10);
  overflow(job, random, 4, true);
  EXPECT_EQ(found_in(job), (Lines{"error numeric.first-nonfinite proof side=0-3 seq=11"}));
}

TEST(FirstNonfinite, IsNoSumThatOverflowsForAStepOrFitsItsType) {
  Random random(1);
  Job once(4);
  once.type = Type::kFloat16;
  train(once, random, 10);
  overflow(once, random, 2, false);
  train(once, random, 10);
  EXPECT_EQ(found_in(once), Lines());
  Job wide(4);
  wide.type = Type::kBfloat16;
  train(wide, random, 10);
  overflow(wide, random, 4, false);
  EXPECT_EQ(found_in(wide), Lines());
}

TEST(ZeroGradient, IsOfOneRankForThreeSteps) {
  for (const int steps : {2, 3}) {
    Random random(1);
    Job job(4);
    train(job, random, 5);
    for (int step = 0; step < steps; ++step) {
      std::vector<Data> inputs = random.gradients(job, kCount);
      inputs[1].assign(kCount, 0);
      job.all_reduce(inputs);
    }
    EXPECT_EQ(
        found_in(job),
        (steps == 2 ? Lines() : Lines{"warning numeric.zero-gradient possible side=1 seq=6"}));
  }
}

// A loss that is zero on all ranks, as one that is over its margin.
TEST(ZeroGradient, OfAllRanksOrOfMoreThanOneIsNone) {
  for (const int zero_ranks : {2, 3}) {
    Random random(1);
    Job job(3);
    train(job, random, 10);
    for (int step = 0; step < 10; ++step) {
      std::vector<Data> inputs = random.gradients(job, kCount);
      for (int rank = 0; rank < zero_ranks; ++rank) {
        inputs[static_cast<size_t>(rank)].assign(kCount, 0);
      }
      job.all_reduce(inputs);
    }
    EXPECT_EQ(found_in(job), Lines()) << zero_ranks;
  }
}

// An expert without tokens, or parameters that are not used.
TEST(ZeroGradient, OfOneBucketIsNoAlarm) {
  Random random(1);
  Job job(4);
  for (int step = 0; step < 5; ++step) {
    job.line_number = 10;
    job.all_reduce(random.gradients(job, kCount));
    job.line_number = 20;
    std::vector<Data> inputs = random.gradients(job, kCount);
    inputs[1].assign(kCount, 0);
    job.all_reduce(inputs);
  }
  EXPECT_EQ(found_in(job), (Lines{"info numeric.zero-gradient possible side=1 seq=2"}));
}

TEST(NormSpike, IsFarAboveItsOwnAndTheOthers) {
  const auto job_with = [](int spikes, double others) {
    Random random(1);
    Job job(4);
    train(job, random, 100);
    for (int i = 0; i < spikes; ++i) {
      std::vector<Data> inputs = random.gradients(job, kCount, 0.01 * others);
      inputs[2] = random.gradients(job, kCount, 0.3).front();
      job.all_reduce(inputs);
    }
    train(job, random, 2);
    return found_in(job);
  };
  EXPECT_EQ(job_with(3, 1), (Lines{"warning numeric.norm-spike possible side=2 seq=101"}));
  EXPECT_EQ(job_with(1, 1), (Lines{"info numeric.norm-spike possible side=2 seq=101"}));
  EXPECT_EQ(job_with(3, 10), Lines());
}

TEST(SameGradients, AreOfTwoRanksForThreeSteps) {
  const auto job_with = [](int steps, bool same_each_step) {
    Random random(1);
    Job job(4);
    train(job, random, 2);
    std::vector<Data> inputs = random.gradients(job, kCount);
    for (int i = 0; i < steps; ++i) {
      inputs = same_each_step ? inputs : random.gradients(job, kCount);
      inputs[1] = inputs[0];
      job.all_reduce(inputs);
    }
    return found_in(job);
  };
  EXPECT_EQ(job_with(3, false), (Lines{"warning numeric.same-data likely side=0,1 seq=3"}));
  EXPECT_EQ(job_with(2, false), Lines());
  EXPECT_EQ(job_with(3, true), Lines());
}

// Replicated layers of tensor parallel ranks, beside those that are divided.
TEST(SameGradients, OfSomeBucketsAreNoneAndOfAllRanksAnInfo) {
  Random random(1);
  Job job(4);
  for (int step = 0; step < 5; ++step) {
    job.line_number = 10;
    std::vector<Data> inputs = random.gradients(job, kCount);
    inputs[1] = inputs[0];
    job.all_reduce(inputs);
    job.line_number = 20;
    job.all_reduce(random.gradients(job, kCount));
  }
  EXPECT_EQ(found_in(job), Lines());
  Job all(4);
  for (int step = 0; step < 5; ++step) {
    all.all_reduce(std::vector(4, random.gradients(all, kCount).front()));
  }
  EXPECT_EQ(found_in(all), Lines({"info numeric.same-data possible side=0-3 seq=1"}));
}

// From some step on one rank gives what it gave before.
Lines found_where_stuck(int before, int stuck,
                        const std::function<void(Job&, Random&, int)>& more) {
  Random random(1);
  Job job(4);
  std::vector<Data> kept;
  for (int step = 0; step < before + stuck; ++step) {
    job.line_number = 10;
    std::vector<Data> inputs = random.gradients(job, kCount);
    if (step == before) {
      kept = inputs;
    } else if (step > before) {
      inputs[2] = kept[2];
    }
    job.all_reduce(inputs);
    more(job, random, step);
  }
  return found_in(job);
}

TEST(StuckGradients, AreOfOneRankWhileAllOthersChange) {
  const auto nothing = [](Job&, Random&, int) {};
  EXPECT_EQ(found_where_stuck(6, 5, nothing),
            (Lines{"warning numeric.stuck-input likely culprits=2 side=2 seq=7"}));
  EXPECT_EQ(found_where_stuck(6, 4, nothing), Lines()) << "too few";
  EXPECT_EQ(found_where_stuck(3, 5, nothing), Lines()) << "it hardly changed before";
  EXPECT_EQ(found_where_stuck(0, 20, nothing), Lines()) << "it never changed";
}

TEST(StuckGradients, AreNoneWhereTheRankGivesSomethingNewElsewhere) {
  EXPECT_EQ(found_where_stuck(6, 8,
                              [](Job& job, Random& random, int) {
                                job.line_number = 20;
                                job.all_reduce(random.gradients(job, kCount));
                              }),
            Lines());
}

// Of all ranks it is a job that is meant to do the same again, of two the others cannot tell.
TEST(StuckGradients, AreNoneOfSeveralRanks) {
  for (const size_t several : {2, 4}) {
    Random random(1);
    Job job(4);
    train(job, random, 8);
    const std::vector<Data> kept = random.gradients(job, kCount);
    for (int step = 0; step < 8; ++step) {
      std::vector<Data> inputs = random.gradients(job, kCount);
      std::copy_n(kept.begin(), several, inputs.begin());
      job.all_reduce(inputs);
    }
    EXPECT_EQ(found_in(job), Lines());
  }
}

}  // namespace
}  // namespace traintrace::testing
