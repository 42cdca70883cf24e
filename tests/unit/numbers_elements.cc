// uses: analyzer
// Sums of single elements: all that some order of adding gives is possible, and nothing else.
#include <numeric>

#include "tests/unit/checked_job.h"

namespace traintrace::testing {
namespace {

// What NCCL may make of them: in any order, rounded each time or only when many are added up,
// divided before or afterwards.
class AnyOrder {
 public:
  AnyOrder(const Job& job, std::mt19937_64& engine)
      : job_(job), ranks_(job.ranks()), engine_(engine) {}

  double sum_of(std::vector<double> addends) {
    const bool before = job_.average && chance();
    for (double& value : addends) {
      value = before ? share_of(value) : value;
    }
    const double sum = rounded(job_.type, added(addends));
    return rounded(job_.type, job_.average && !before ? share_of(sum) : sum);
  }

 private:
  bool chance() { return engine_() % 2 == 0; }
  // Some algorithms compute with floats, and round to the type at the end.
  double either(double value) {
    const double computed = chance() ? static_cast<float>(value) : value;
    return chance() ? rounded(job_.type, computed) : computed;
  }
  double share_of(double value) {
    const double share = 1.0 / ranks_;
    return either(value * (chance() ? rounded(job_.type, share) : static_cast<float>(share)));
  }
  double added(std::vector<double> values) {
    std::shuffle(values.begin(), values.end(), engine_);
    while (values.size() > 1) {
      const double last = values.back();
      values.pop_back();
      double& other = values[engine_() % values.size()];
      other = either(other + last);
    }
    return values.front();
  }

  const Job& job_;
  int ranks_;
  std::mt19937_64& engine_;
};

TEST(ImpossibleElement, IsNoneThatSomeOrderGives) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 120; ++i) {
    Job job(2 + i % 7);
    job.type = std::array{Type::kFloat32, Type::kFloat16, Type::kBfloat16}[engine() % 3];
    job.average = engine() % 2 == 0;
    Random random(engine());
    for (int step = 0; step < 10; ++step) {
      const double scale = std::pow(10, std::uniform_real_distribution<>(-7, 2)(engine));
      const size_t count = i % 4 == 0 ? 50 : 1 + engine() % 16;
      const std::vector<Data> inputs = random.gradients(job, count, scale);
      Data result;
      for (size_t element = 0; element < inputs.front().size(); ++element) {
        std::vector<double> addends;
        addends.reserve(inputs.size());
        for (const Data& input : inputs) {
          addends.push_back(input[element]);
        }
        result.push_back(AnyOrder(job, engine).sum_of(addends));
      }
      job.all_reduce(inputs, [&](int, Data& given) { given = result; });
    }
    EXPECT_EQ(found_in(job), Lines()) << i;
  }
}

// The bound for whole buffers allows it: each of four additions may round by as much as the largest
// sum on the way does.  No order has so large ones four times.
TEST(ImpossibleElement, IsOneWithoutARanksData) {
  const std::vector<Data> inputs = {{-0x1.dp-10}, {0x1.ep-10},   {-0x1.9p-10},
                                    {0x1.16p-14}, {-0x1.56p-10}, {0x1.64p-10}};
  Job job(6);
  job.type = Type::kBfloat16;
  job.average = true;
  const double share = rounded(job.type, 1.0 / 6);
  double without = 0;
  for (const int rank : {0, 1, 2, 4, 5}) {
    const double own = rounded(job.type, inputs[static_cast<size_t>(rank)][0] * share);
    without = rounded(job.type, without + own);
  }
  job.all_reduce(inputs);
  job.all_reduce(inputs, [&](int, Data& result) { result[0] = without; });
  EXPECT_EQ(found_in(job), Lines{"error numeric.impossible-result proof side=0-5 seq=2"});
}

// Some of them are subnormal, as half has them: every processor adds these without an error.
TEST(ImpossibleElement, IsOneOfSmallHalvesWithoutARanksData) {
  const std::vector<Data> inputs = {{-0x1.bb8p-13}, {0x1.244p-13},  {-0x1.694p-12}, {-0x1.bcp-18},
                                    {0x1.1cp-17},   {-0x1.554p-10}, {-0x1.4a4p-11}};
  Job job(7);
  job.type = Type::kFloat16;
  job.average = true;
  job.all_reduce(inputs);
  job.all_reduce(inputs, [](int, Data& result) { result[0] = -0x1.5e8p-12; });
  EXPECT_EQ(found_in(job), Lines{"error numeric.impossible-result proof side=0-6 seq=2"});
}

}  // namespace
}  // namespace traintrace::testing
