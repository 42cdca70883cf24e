// uses: analyzer
// NaN, Inf, zeros and equal data that harm nobody, and their defective twins.
#include "tests/unit/checked_job.h"

namespace traintrace::testing {
namespace {

constexpr int kSteps = 30;
constexpr int kSince = 12;

std::string bits(double value) {
  return fmt::format("0x{:x}", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

void fetch(Job& job, int rank, double value, const std::string& stack) {
  job.line(fmt::format("+{}ms {}/1 * scalarRead bytes=4 value={} @{}",
                       1000 + 10 * static_cast<int64_t>(job.sequence()), rank, bits(value), stack));
}

using Spoil = std::function<void(int rank, int step, Data& data)>;

// Sums of something beside those of gradients, which are spoiled, too, if `gradients` are.
Job with_sums_of(const Spoil& spoil, bool gradients = false) {
  Random random(1);
  Job job(3);
  for (int step = 0; step < kSteps; ++step) {
    for (const int line : {10, 20}) {
      std::vector<Data> inputs = random.gradients(job, kCount);
      for (int rank = 0; rank < job.ranks() && (line == 20 || gradients); ++rank) {
        spoil(rank, step, inputs[static_cast<size_t>(rank)]);
      }
      job.line_number = line;
      job.all_reduce(inputs);
    }
  }
  return job;
}

void mask(int /*rank*/, int step, Data& data) {
  std::fill_n(data.begin() + 10, step < kSince ? 0 : 30, -kInf);
}

TEST(Mask, OfInfinitiesIsNoDefect) {
  EXPECT_EQ(found_in(with_sums_of(mask)), Lines());
}

TEST(Mask, HasAsManyInEachStep) {
  const auto growing = [](int /*rank*/, int step, Data& data) {
    std::fill_n(data.begin() + 10, step < kSince ? 0 : 30 + step, -kInf);
  };
  EXPECT_EQ(found_in(with_sums_of(growing)),
            (Lines{"error numeric.first-nonfinite proof side=0-2 seq=26"}));
}

TEST(Mask, HasNoNan) {
  const auto overflow = [](int rank, int step, Data& data) {
    if (step > kSince) {
      std::fill_n(data.begin(), 50, kNan);
    } else if (step == kSince && rank == 1) {
      data[7] = kInf;
    }
  };
  EXPECT_EQ(found_in(with_sums_of(overflow)),
            (Lines{"error numeric.first-nonfinite proof culprits=1 side=1 side=0,2 seq=26"}));
}

// A scaler skips each of these steps: so the weights stay as they are, and so does the number.
TEST(Mask, IsNoneWhereAScalerSkipsTheSteps) {
  const auto one_layer = [](int rank, int step, Data& data) {
    std::fill_n(data.begin(), rank == 1 && step >= kSince ? 30 : 0, kInf);
  };
  const auto with_flags = [&](bool skips) {
    Job job = with_sums_of(one_layer);
    for (int step = 0; step < kSteps; ++step) {
      job.line(
          fmt::format("+{}ms 1/1 * scalarRead bytes=4 value={} @grad_scaler.py:9:GradScaler."
                      "_maybe_opt_step,train.py:30:step",
                      1005 + 20 * step, bits(skips && step >= kSince ? 1 : 0)));
    }
    return found_in(job);
  };
  EXPECT_EQ(with_flags(true).front(),
            "error numeric.first-nonfinite proof culprits=1 side=1 side=0,2 seq=26");
  EXPECT_EQ(with_flags(false), Lines());
}

// What pads the last shard has NaN all the while; what a rank computes has them later.
TEST(Padding, DoesNotHideWhatComesLater) {
  const auto job_of = [](bool spoiled, bool gathered) {
    Random random(1);
    Job job(4);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<Data> inputs = random.gradients(job, 4 * kCount);
      for (int rank = 0; rank < job.ranks(); ++rank) {
        Data& data = inputs[static_cast<size_t>(rank)];
        std::fill_n(data.end() - 20, step < 3 ? 0 : 20, kNan);
        std::fill_n(data.begin(), spoiled && rank == 1 && step >= kSince ? 5 : 0, kNan);
      }
      job.reduce_scatter(inputs);
      if (gathered) {
        std::vector<Data> shards = random.gradients(job, kCount);
        std::fill_n(shards[3].end() - 20, step < 3 ? 0 : 20, kNan);
        job.all_gather(shards, [](int, int, Data&) {});
      }
    }
    return job;
  };
  for (const bool gathered : {false, true}) {
    EXPECT_EQ(found_in(job_of(false, gathered)), Lines());
    EXPECT_EQ(found_in(job_of(true, gathered)).front().substr(0, 54),
              "error numeric.first-nonfinite proof culprits=1 side=1 ");
  }
}

// Each sends the next one a buffer with room for more than there is, as with experts.
Job with_messages(bool spoils_gradients) {
  Random random(1);
  Job job(3);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Data> sent = random.gradients(job, kCount);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      Data& data = sent[static_cast<size_t>(rank)];
      std::fill_n(data.begin() + 150, step < kSince ? 0 : 20, kNan);
      job.line_number = 30;
      job.message(rank, (rank + 1) % 3, static_cast<uint64_t>(step) + 1, data, data);
    }
    std::vector<Data> gradients = random.gradients(job, kCount);
    for (Data& data : gradients) {
      std::fill_n(data.begin(), spoils_gradients && step >= kSince ? 9 : 0, kNan);
    }
    job.line_number = 10;
    job.all_reduce(gradients);
  }
  return job;
}

TEST(Padding, OfMessagesIsHarmlessWhileGradientsAreFinite) {
  EXPECT_EQ(found_in(with_messages(false)), Lines());
  EXPECT_EQ(found_in(with_messages(true)).front().substr(0, 35),
            "error numeric.first-nonfinite proof");
}

// An expert on rank 2: what it sends all others is NaN, and so is what they compute from it.
TEST(FirstNonfinite, ComesByAllToAll) {
  const auto job_of = [](bool used) {
    Random random(1);
    Job job(4);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<Data> inputs = random.gradients(job, kCount);
      std::fill_n(inputs[2].begin() + 5, step < kSince ? 0 : 10, kNan);
      job.line_number = 30;
      job.all_to_all(inputs, [](int, int, Data&) {});
      inputs = random.gradients(job, kCount);
      for (Data& data : inputs) {
        std::fill_n(data.begin(), used && step >= kSince ? 9 : 0, kNan);
      }
      job.line_number = 10;
      job.all_reduce(inputs);
    }
    return job;
  };
  EXPECT_EQ(found_in(job_of(false)), Lines());
  EXPECT_EQ(found_in(job_of(true)),
            (Lines{"error numeric.first-nonfinite proof culprits=2 side=2 side=0,1,3 seq=25"}));
}

// A metric that has become a mean over nothing.
TEST(FirstNonfinite, IsAnInfoBesideFiniteGradients) {
  const auto job_of = [](bool checked, bool spoiled) {
    Random random(1);
    Job job(3);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<Data> inputs = random.gradients(job, kCount);
      for (Data& data : inputs) {
        data[3] = spoiled && step >= kSince ? kNan : data[3];
      }
      if (checked) {
        job.all_reduce(inputs);
      } else {
        job.next_operation();
      }
      for (int rank = 0; rank < job.ranks(); ++rank) {
        fetch(job, rank, rank == 1 && step >= kSince ? kNan : 1.0 / (1 + step) + rank,
              "train.py:30:step");
      }
    }
    return job;
  };
  EXPECT_EQ(found_in(job_of(true, false)), Lines{"info numeric.first-nonfinite possible side=1"});
  EXPECT_EQ(found_in(job_of(false, false)), Lines{"warning numeric.first-nonfinite likely side=1"});
  EXPECT_EQ(found_in(job_of(true, true)),
            (Lines{"error numeric.first-nonfinite proof side=0-2 seq=13"}));
}

// Of two ranks, to an all-reduce that Python code calls.
TEST(ZeroGradient, FromTheFirstStepOnMayBeABroadcast) {
  const auto job_of = [](int since) {
    Random random(1);
    Job job(2);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<Data> inputs = random.gradients(job, kCount);
      if (step >= since) {
        inputs[1] = Data(kCount, 0);
      }
      job.all_reduce(inputs);
    }
    return job;
  };
  EXPECT_EQ(found_in(job_of(0)), Lines{"info numeric.zero-gradient possible side=1 seq=1"});
  EXPECT_EQ(found_in(job_of(1)), Lines{"warning numeric.zero-gradient possible side=1 seq=2"});
}

struct Sent {
  int rank, line;
  int64_t at_ms, batch;
};

void send(Job& job, const Sent& sent) {
  job.line(fmt::format("+{}ms {}/1 * batchHash bytes=4096 value=0x{:x} @data.py:{}:load",
                       sent.at_ms, sent.rank, 0x1000 + sent.batch, sent.line));
}

constexpr const char* kBucketStack =
    "/usr/lib/python3/dist-packages/torch/nn/parallel/distributed.py:1:forward,train.py:40:step";

void sum_gradients(Job& job, int64_t at_ms) {
  job.next_operation();
  job.line(fmt::format("+{}ms 0-{} calls ncclAllReduce on dp count=500 type=float32 @{}", at_ms,
                       job.ranks() - 1, kBucketStack));
  for (int rank = 0; rank < job.ranks(); ++rank) {
    job.line(
        fmt::format("+{0}ms {1}/1 > ncclAllReduce comm=dp seq={2} count=500 type=float32 "
                    "op=sum @{3}\n+{0}ms {1}/1 < ncclAllReduce =ncclSuccess",
                    at_ms, rank, job.sequence(), kBucketStack));
  }
}

// Some steps on data of the ranks' own (or the same), then some batches of the same set on all.
Job with_evaluations(bool own, int steps, int evaluated) {
  Job job(3);
  int64_t time = 1000;
  int64_t number = 0;
  for (int round = 0; round < 10; ++round) {
    for (int step = 0; step < steps; ++step, time += 10) {
      for (int rank = 0; rank < job.ranks(); ++rank) {
        send(job, {rank, 7, time, (own ? 10'000 * (rank + 1) : 0) + time});
      }
      sum_gradients(job, time + 5);
    }
    for (int i = 0; i < evaluated; ++i, time += 10, ++number) {
      for (int rank = 0; rank < job.ranks(); ++rank) {
        send(job, {rank, 8, time, 1'000'000 + number});
      }
    }
  }
  return job;
}

TEST(SameData, OfAnEvaluationIsNoAlarm) {
  EXPECT_EQ(found_in(with_evaluations(true, 4, 4)),
            Lines{"info numeric.same-data possible side=0-2"});
  EXPECT_EQ(found_in(with_evaluations(false, 4, 4)).front(),
            "warning numeric.same-data possible side=0-2");
  EXPECT_EQ(found_in(with_evaluations(false, 8, 0)),
            Lines{"warning numeric.same-data possible side=0-2"});
}

// Rank 1 trains on the same set a little later than the others.
TEST(SameData, IsNoneOfSomeIfTheOthersSendItAtOtherTimes) {
  const auto job_of = [](bool same) {
    Job job(3);
    int64_t time = 1000;
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 80; ++i, time += 10) {
        for (int rank = 0; rank < job.ranks(); ++rank) {
          const int64_t late = rank == 1 ? 400 : 0;
          send(job, {rank, 8, time + late, i + (rank == 1 && !same ? 500 : 0)});
        }
        sum_gradients(job, time + 5);
      }
      time += 1000;
    }
    return job;
  };
  // Both rounds together, it is the same on all ranks.
  EXPECT_EQ(found_in(job_of(true)), Lines{"warning numeric.same-data possible side=0-2"});
  EXPECT_EQ(found_in(job_of(false)), Lines{"warning numeric.same-data possible side=0,2"});
}

// Rank 0 receives from two others at once: from each into a place of its own, or both into one that
// nobody reads.
TEST(DeliveredDiffers, NotOfWhatIsOverwrittenInItsGroup) {
  const auto job_of = [](bool into_one) {
    Random random(1);
    Job job(3);
    for (int step = 0; step < 5; ++step) {
      const std::vector<Data> data = random.gradients(job, kCount);
      const auto number = static_cast<uint64_t>(step) + 1;
      const int64_t time = 900 + 20 * step;
      job.line(fmt::format("+{0}ms 0/1 > ncclGroupStart\n+{0}ms 0/1 < ncclGroupStart =ncclSuccess",
                           time));
      for (const int from : {1, 2}) {
        job.line(
            fmt::format("+{0}ms 0/1 > ncclRecv comm=dp seq={1} peer={2} count={3} type=float32 "
                        "to=0x{4:x}\n+{0}ms 0/1 < ncclRecv =ncclSuccess",
                        time + from, number, from, kCount, into_one ? 0x7f00 : 0x7f00 * from));
      }
      job.line(fmt::format("+{0}ms 0/1 > ncclGroupEnd\n+{0}ms 0/1 < ncclGroupEnd =ncclSuccess",
                           time + 3));
      job.message(1, 0, number, data[1], data[2]);
      job.message(2, 0, number, data[2], data[2]);
    }
    return job;
  };
  EXPECT_EQ(found_in(job_of(true)), Lines());
  EXPECT_EQ(found_in(job_of(false)), Lines{"error numeric.delivered-differs proof side=0 seq=1"});
}

}  // namespace
}  // namespace traintrace::testing
