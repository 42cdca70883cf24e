// uses: analyzer
// What is drawn of recorded numbers.
#include "analyzer/numbers/curves.h"
#include "tests/unit/checked_job.h"

namespace traintrace::testing {
namespace {

std::vector<double> wave(size_t count) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(std::sin(static_cast<double>(i) / 7));
  }
  return values;
}

TEST(Thinned, KeepsAllOfFew) {
  EXPECT_EQ(thinned(wave(5), 8), (std::vector<size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(thinned({}, 8), std::vector<size_t>());
}

TEST(Thinned, KeepsWhatStandsOut) {
  for (const size_t at : {size_t{0}, size_t{1}, size_t{4711}, size_t{9999}}) {
    for (const double odd : {1e6, -1e6, kNan, kInf, -kInf}) {
      std::vector<double> values = wave(10'000);
      values[at] = odd;
      const std::vector<size_t> kept = thinned(values, 100);
      EXPECT_LE(kept.size(), 100U);
      EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
      EXPECT_EQ(std::adjacent_find(kept.begin(), kept.end()), kept.end());
      EXPECT_EQ(kept.front(), 0U);
      EXPECT_EQ(kept.back(), values.size() - 1);
      EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), at)) << at << " " << odd;
    }
  }
}

TEST(Curves, OfChecksAreNormsThatBreakOffWhereNotFinite) {
  Random random(1);
  Job job(2);
  train(job, random, 3);
  std::vector<Data> inputs = random.gradients(job, kCount);
  inputs[1][3] = kNan;
  inputs[1][4] = kInf;
  job.all_reduce(inputs);
  const auto run = job.run();
  const std::vector<CurveGroup> groups = curves_of(*run, numbers_of(*run));
  std::vector<std::string> names;
  names.reserve(groups.size());
  for (const CurveGroup& group : groups) {
    names.push_back(group.name);
  }
  EXPECT_EQ(names,
            (Lines{"train.py:10 in step: norm of the input of ncclAllReduce on dp",
                   "train.py:10 in step: NaN and Inf in the input of ncclAllReduce on dp",
                   "train.py:10 in step: norm of the output of ncclAllReduce on dp",
                   "train.py:10 in step: NaN and Inf in the output of ncclAllReduce on dp"}));
  const NumberCurve& norms = groups[0].curves[1];
  ASSERT_EQ(norms.values.size(), 4U);
  EXPECT_NEAR(norms.values[0], 0.01 * std::sqrt(kCount), 0.03);
  EXPECT_TRUE(std::isnan(norms.values[3]));
  EXPECT_EQ(groups[1].curves[1].values, (std::vector<double>{0, 0, 0, 2}));
  EXPECT_EQ(groups[1].curves[0].values, (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(norms.times.size(), norms.values.size());
}

}  // namespace
}  // namespace traintrace::testing
