// uses: analyzer
// Numbers and shards that are the same on all ranks, until they are not.
#include "tests/unit/checked_job.h"

namespace traintrace::testing {
namespace {

using ValueOf = std::function<double(int rank, int step)>;

std::string bits(double value) {
  return fmt::format("0x{:x}", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

// As the job fetches them, from step `from` to before `to`.
void fetch(Job& job, const ValueOf& value, int from, int to, int line = 30) {
  for (int step = from; step < to; ++step) {
    for (int rank = 0; rank < job.ranks(); ++rank) {
      job.line(fmt::format("+{}ms {}/1 * scalarRead bytes=4 value={} @train.py:{}:step",
                           1000 + step * 10, rank, bits(value(rank, step)), line));
    }
  }
}

// What each rank sends to its GPU.
void send(Job& job, const std::function<int(int rank, int step)>& batch, int steps) {
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < job.ranks(); ++rank) {
      job.line(fmt::format("+{}ms {}/1 * batchHash bytes=4096 value=0x{:x} @data.py:7:load",
                           1000 + step * 10, rank, 0x1000 + batch(rank, step)));
    }
  }
}
int own_batch(int rank, int step) {
  return 1000 * rank + step;
}

double norm_at(int step) {
  return 3.0 / (1 + step) + 0.5;
}
// All have the same, but `odd`, from `since` on.
ValueOf odd_since(int odd, int since, double by = 0.01) {
  return [=](int rank, int step) {
    return norm_at(step) + (rank == odd && step >= since ? by * (1 + step) : 0);
  };
}

TEST(ReplicaDrift, NamesTheRankThatAllOthersAgreeAgainst) {
  Job job(4);
  fetch(job, odd_since(2, 25), 0, 40);
  EXPECT_EQ(found_in(job), (Lines{"warning numeric.replica-drift likely culprits=2 side=0,1,3 "
                                  "side=2"}));
  const auto run = job.run();
  const Finding finding = find_in_numbers(*run, numbers_of(*run)).front();
  EXPECT_EQ(finding.title,
            "rank 2 has another number at train.py:30 in step than all other ranks since +1.25 s: "
            "0.8753846 instead of 0.61538464; the 25 values before were the same on all 4 ranks");
  EXPECT_EQ(finding.values,
            (std::vector<std::pair<std::string, int64_t>>{
                {"since_ns", 1'250'000'000}, {"equal_count", 25}, {"differing_count", 15}}));
  EXPECT_EQ(finding.evidence.back(), "15 of the 15 recorded from there on differ");
}

TEST(ReplicaDrift, IsNoneOfHealthyRanks) {
  Job job(4);
  fetch(job, odd_since(-1, 0), 0, 40);
  EXPECT_EQ(found_in(job), Lines());
}

TEST(ReplicaDrift, IsNoneOfLocalLosses) {
  Job job(4);
  fetch(
      job, [](int rank, int step) { return norm_at(step) + rank * 0.001; }, 0, 40);
  EXPECT_EQ(found_in(job), Lines());
}

// A warm-up of the same data on all ranks, and then their own: with their data the losses part.
TEST(ReplicaDrift, IsNoneOfLossesOfDataThatWereTheSame) {
  const ValueOf loss = [](int rank, int step) {
    return norm_at(step) + (step >= 25 ? rank * 0.001 * step : 0);
  };
  for (const bool recorded : {false, true}) {
    Job job(4);
    fetch(job, loss, 0, 40);
    if (recorded) {
      send(
          job, [](int rank, int step) { return own_batch(step < 25 ? 0 : rank, step); }, 40);
    }
    EXPECT_EQ(found_in(job), Lines()) << recorded;
  }
}

// Two ranks cannot outvote each other; that they had data of their own shows that the number is one
// of both.
TEST(ReplicaDrift, OfTwoRanksNamesNone) {
  Job unknown(2);
  fetch(unknown, odd_since(1, 25), 0, 40);
  EXPECT_EQ(found_in(unknown), Lines());
  Job job(2);
  fetch(job, odd_since(1, 25), 0, 40);
  send(job, own_batch, 40);
  EXPECT_EQ(found_in(job), (Lines{"warning numeric.replica-drift possible side=0 side=1"}));
}

TEST(ReplicaDrift, OfTwoHalvesNamesNone) {
  const ValueOf halves = [](int rank, int step) {
    return norm_at(step) + (rank >= 2 && step >= 25 ? 0.01 : 0);
  };
  Job job(4);
  fetch(job, halves, 0, 40);
  send(job, own_batch, 40);
  EXPECT_EQ(found_in(job), (Lines{"warning numeric.replica-drift possible side=0,1 side=2,3"}));
}

TEST(ReplicaDrift, IsNoneOfConstants) {
  const ValueOf scale = [](int rank, int step) {
    return rank == 2 && step >= 25 ? 32768 : 65536 >> step / 10;
  };
  Job job(4);
  fetch(job, scale, 0, 40);
  EXPECT_EQ(found_in(job), Lines());
}

// The habit has to be long enough.
TEST(ReplicaDrift, TakesTwentyValues) {
  for (const int equal : {19, 20}) {
    Job job(4);
    fetch(job, odd_since(2, equal), 0, 45);
    EXPECT_EQ(found_in(job).size(), equal == 20 ? 1U : 0U) << equal;
  }
}

TEST(ReplicaDrift, IsNoneOfARankOfWhichMoreIsRecorded) {
  Job job(4);
  fetch(job, odd_since(-1, 0), 0, 40);
  job.line("+2.000 1/1 * scalarRead bytes=4 value=0x3f000000 @train.py:30:step");
  EXPECT_EQ(found_in(job), Lines());
}

// Rank 1 fetches one value more in step 25, so that all its later ones are a step behind.
TEST(ReplicaDrift, IsNoneOfARankThatIsAStepAhead) {
  const ValueOf slipped = [](int rank, int step) {
    return rank == 1 && step == 25 ? 7.5 : norm_at(rank == 1 && step > 25 ? step - 1 : step);
  };
  Job job(4);
  fetch(job, slipped, 0, 40);
  EXPECT_EQ(found_in(job), Lines());
}

// Of rank 0 the first 15 were overwritten: the 16th is its first.
TEST(ReplicaDrift, IsFoundWhereOldValuesAreLost) {
  Job job(4);
  const ValueOf value = odd_since(2, 50);
  for (int step = 0; step < 60; ++step) {
    for (int rank = step < 15 ? 1 : 0; rank < 4; ++rank) {
      job.line(fmt::format("+{}ms {}/1 * scalarRead bytes=4 value={} @train.py:30:step",
                           1000 + step * 10, rank, bits(value(rank, step))));
    }
  }
  EXPECT_EQ(found_in(job), (Lines{"warning numeric.replica-drift likely culprits=2 side=0,1,3 "
                                  "side=2"}));
}

// Rank 0 fetches each value, the others each hundredth from then on.
TEST(ReplicaDrift, IsNoneOfALoggerOnOneRank) {
  Job job(4);
  for (int step = 0; step < 900; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == 0 || step < 100 || step % 100 == 0) {
        job.line(fmt::format("+{}ms {}/1 * scalarRead bytes=4 value={} @train.py:30:step",
                             1000 + step * 10, rank, bits(norm_at(step))));
      }
    }
  }
  EXPECT_EQ(found_in(job), Lines());
}

// An evaluation on rank 0 alone adds to what is reduced otherwise.
TEST(ReplicaDrift, IsNoneOfWhatDiffersNowAndThen) {
  Job job(4);
  fetch(
      job,
      [](int rank, int step) {
        return norm_at(step) + (rank == 0 && step >= 40 && step % 10 == 0 ? 1 : 0);
      },
      0, 100);
  EXPECT_EQ(found_in(job), Lines());
}

// Steps between two averages, once the job has begun with them.
TEST(ReplicaDrift, IsNoneOfLocalSteps) {
  Job job(4);
  fetch(
      job,
      [](int rank, int step) {
        return norm_at(step) + (step >= 40 && step % 10 != 0 ? rank * 1e-3 : 0);
      },
      0, 100);
  EXPECT_EQ(found_in(job), Lines());
}

TEST(ReplicaDrift, OfFewValuesOrByRoundingIsAnInfo) {
  Job few(4);
  fetch(few, odd_since(2, 38), 0, 40);
  EXPECT_EQ(found_in(few), (Lines{"info numeric.replica-drift likely side=0,1,3 side=2"}));
  Job rounding(4);
  fetch(rounding, odd_since(2, 25, 1e-8), 0, 40);
  EXPECT_EQ(found_in(rounding), (Lines{"info numeric.replica-drift likely side=0,1,3 side=2"}));
}

TEST(ReplicaDrift, LeavesNanToFirstNonfinite) {
  Job job(4);
  fetch(job, odd_since(2, 25, kNan), 0, 40);
  EXPECT_EQ(found_in(job), (Lines{"warning numeric.first-nonfinite likely side=2"}));
}

// Who stops at the first NaN fetches no second one; a single one before the end is a skipped step.
TEST(FirstNonfinite, OfTheLastValueIsAnInfo) {
  const auto nan_in = [](int bad) {
    return [bad](int, int step) { return step == bad ? double{kNan} : norm_at(step); };
  };
  Job last(4);
  fetch(last, nan_in(39), 0, 40);
  EXPECT_EQ(found_in(last), (Lines{"info numeric.first-nonfinite likely side=0-3"}));
  Job before(4);
  fetch(before, nan_in(38), 0, 40);
  EXPECT_EQ(found_in(before), Lines());
}

// The same rank at two lines is one finding.
TEST(ReplicaDrift, OfSeveralLinesIsOne) {
  Job job(4);
  fetch(job, odd_since(2, 30), 0, 40, 30);
  fetch(job, odd_since(2, 25), 0, 40, 31);
  const auto run = job.run();
  const std::vector<Finding> found = find_in_numbers(*run, numbers_of(*run));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().where.front().line, 31);
  EXPECT_EQ(found.front().evidence.back().substr(0, 28), "later: rank 2 has another nu");
}

// Groups of two ranks that hold the same parameters: 0 and 1, 2 and 3, ..
class Replicas {
 public:
  explicit Replicas(int groups) {
    text_ =
        fmt::format("start 0\nranks 0-{}\nfact setting.TRAINTRACE_PAYLOAD check\n", 2 * groups - 1);
    for (int group = 0; group < groups; ++group) {
      text_ +=
          fmt::format("communicator shard{0} members={1},{2}\n", group, 2 * group, 2 * group + 1);
    }
  }

  // Each member gives its shard, and gets both.
  void gather(int groups, int step, const std::function<int(int rank)>& shard) {
    for (int rank = 0; rank < 2 * groups; ++rank) {
      record(rank, step, "0x1x0", shard(rank));
      for (int part = 0; part < 2; ++part) {
        record(rank, step, fmt::format("{}x2x1", part), shard(rank / 2 * 2 + part));
      }
    }
  }

  Lines found() const {
    Result<DumpText> dump = parse_dump(text_, "test");
    EXPECT_TRUE(dump) << dump.error().message;
    const auto run = assembled_run(std::move(dump->processes));
    Lines lines;
    for (const Finding& finding : find_in_numbers(*run, numbers_of(*run))) {
      lines.push_back(fmt::format("{} {} culprits={} seq={} on={}", finding.code,
                                  name_of(finding.certainty), rank_list(finding.culprits),
                                  finding.sequence.value_or(0), finding.communicator->name));
    }
    return lines;
  }

 private:
  void record(int rank, int step, const std::string& part, int data) {
    text_ += fmt::format(
        "+{}ms {}/1 * payloadCheck comm=shard{} seq={} operation=4 part={} type=float32 op=sum "
        "peer=0 count=500 nan=0 inf=0 largest={} sum={} abs_sum={} square_sum={} hash=0x{:x} "
        "@fsdp.py:9:unshard\n",
        1000 + step * 10, rank, rank / 2, step + 1, part, real(1), real(data), real(500), real(100),
        0x5000 + data);
  }
  std::string text_;
};

// Of both shards another one in each step.
int shard_of(int rank, int step) {
  return 1000 * (rank % 2) + step;
}

TEST(ShardDrift, NamesTheReplicaThatAllOthersAgreeAgainst) {
  Replicas job(3);
  for (int step = 0; step < 40; ++step) {
    job.gather(3, step, [&](int rank) {
      return shard_of(rank, step) + (rank == 4 && step >= 25 ? 70'000 : 0);
    });
  }
  EXPECT_EQ(job.found(), (Lines{"numeric.replica-drift likely culprits=4 seq=26 on=shard2"}));
}

TEST(ShardDrift, OfTwoReplicasNamesNone) {
  Replicas job(2);
  for (int step = 0; step < 40; ++step) {
    job.gather(2, step, [&](int rank) {
      return shard_of(rank, step) + (rank == 3 && step >= 25 ? 70'000 : 0);
    });
  }
  EXPECT_EQ(job.found().size(), 1U);
  EXPECT_EQ(job.found().front().substr(0, 42), "numeric.replica-drift possible culprits= s");
}

TEST(ShardDrift, IsNoneOfReplicasAndNoneOfPartsOfAModel) {
  Replicas same(3);
  Replicas parts(3);
  for (int step = 0; step < 40; ++step) {
    same.gather(3, step, [&](int rank) { return shard_of(rank, step); });
    parts.gather(3, step, [&](int rank) { return shard_of(rank, step) + rank / 2 * 5000; });
  }
  EXPECT_EQ(same.found(), Lines());
  EXPECT_EQ(parts.found(), Lines());
}

}  // namespace
}  // namespace traintrace::testing
