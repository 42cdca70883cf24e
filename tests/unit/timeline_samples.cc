// uses: analyzer
#include "analyzer/timeline/recorded/samples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace traintrace {
namespace {

std::string text(std::vector<HostSample> samples, std::vector<Span> calls) {
  std::string result;
  for (const SampledSpan& each : sampled_spans(std::move(samples), std::move(calls))) {
    result += fmt::format("{}-{}:{} ", each.span.begin_ns, each.span.end_ns, each.stack);
  }
  return result;
}

TEST(Samples, OneStandsForAllBetweenTwoCalls) {
  EXPECT_EQ(text({{150, 7}}, {{0, 100}, {200, 210}}), "100-200:7 ");
  EXPECT_EQ(text({{150, 7}, {170, 7}}, {{200, 210}, {0, 100}}), "100-200:7 ");
}

TEST(Samples, TwoShareTheTime) {
  EXPECT_EQ(text({{150, 7}, {170, 8}}, {{0, 100}, {200, 210}}), "100-160:7 160-200:8 ");
  EXPECT_EQ(text({{170, 8}, {150, 7}, {180, 8}, {190, 7}}, {{0, 100}, {200, 210}}),
            "100-160:7 160-185:8 185-200:7 ");
}

TEST(Samples, NoneReachesBeyondACall) {
  EXPECT_EQ(text({{150, 7}, {250, 7}}, {{0, 100}, {180, 210}, {300, 301}}), "100-180:7 210-300:7 ");
}

TEST(Samples, NothingIsSaidBeforeTheFirstCallAndAfterTheLast) {
  EXPECT_EQ(text({{50, 7}, {350, 7}}, {{100, 110}, {300, 310}}), "");
  EXPECT_EQ(text({{50, 7}}, {}), "");
}

TEST(Samples, InACallTheyAreNotOfTheHost) {
  EXPECT_EQ(text({{105, 7}}, {{100, 110}, {106, 107}, {300, 310}}), "");
}

TEST(Samples, LoadersAreKnownByTheirFiles) {
  EXPECT_TRUE(is_loader_frame("/x/site-packages/torch/utils/data/dataloader.py(733): __next__"));
  EXPECT_TRUE(is_loader_frame("torch/utils/data/dataloader.py(1): _BaseDataLoaderIter.__next__"));
  EXPECT_TRUE(is_loader_frame("/x/nvidia/dali/plugin/pytorch/__init__.py(9): __next__"));
  EXPECT_FALSE(is_loader_frame("/x/torch/utils/data/dataloader.py(733): __init__"));
  EXPECT_FALSE(is_loader_frame("/home/me/dataloader.py(733): __next__"));
  EXPECT_FALSE(is_loader_frame("/home/me/mytorch/utils/data/dataloader.py(733): __next__"));
  const StackText stack = {{{"decode", "/a/train.py", 3},
                            {"_X.__next__", "/b/torch/utils/data/dataloader.py", 12},
                            {"main", "/a/train.py", 9}},
                           {}};
  EXPECT_EQ(loader_frame(stack), "torch/utils/data/dataloader.py(12): _X.__next__");
  EXPECT_EQ(loader_frame(StackText{{{"decode", "/a/train.py", 3}}, {}}), std::nullopt);
}

}  // namespace
}  // namespace traintrace
