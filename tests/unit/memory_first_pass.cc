// uses: analyzer
// A first pass forward leaves something of each layer, and is no run of steps that leak.
#include "analyzer/memory/growth/first_pass.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/memory/growth/growth.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

constexpr int kLayers = 30;
constexpr int kOfLayer = 1;
constexpr int kOfJob = 2;
constexpr const char* kBackward = "stack 3 /lib/python3/torch/autograd/__init__.py:9:backward\n";
constexpr const char* kSynchronizes = "stack 3 /lib/python3/torch/cuda/__init__.py:9:synchronize\n";

std::string report(int second, int hundredths, int address, int change, int stack) {
  return fmt::format(
      "+{}.{:02} 0/1 * reportMemoryUsageToProfiler address=0x{:x}000 change={} allocated=8192 "
      "reserved=8192 @{} on-device=0\n",
      second, hundredths, address + 16, change, stack);
}

// One launch a second, each of which keeps 8 KiB of a layer; `also`: what else each does.
template <class Also>
std::string job(const char* stacks, Also also) {
  std::string text =
      "ranks 0\n"
      "stack 1 /lib/python3/torch/nn/functional.py:7:relu train.py:8:forward\n"
      "stack 2 train.py:20:main\n";
  text += stacks;
  for (int i = 1; i <= kLayers; ++i) {
    text += report(i, 10, i, 8192, kOfLayer) + also(i);
  }
  return text +
         fmt::format("+1 0 calls cudaLaunchKernel x{} every=1s @train.py:8:forward\nend +{}\n",
                     kLayers, kLayers + 1);
}

size_t growing_in(const std::string& text) {
  Result<DumpText> dump = parse_dump(text, "test");
  if (!dump) {
    ADD_FAILURE() << dump.error().message;
    return 0;
  }
  const ProcessTrace& trace = dump->processes.front();
  const MemoryHistory history = history_of(trace);
  EXPECT_EQ(history.steps.starts.size(), static_cast<size_t>(kLayers));
  return GrowthJudge(trace, history).growing().size();
}

std::string comes_and_goes(int step, int stack) {
  return report(step, 20, 1000, 4096, stack) + report(step, 50, 1000, -4096, stack);
}

std::string copied(int step, const char* direction) {
  return fmt::format(
      "+{0}.60 0/1 > cudaMemcpy bytes=64 direction={1}\n+{0}.61 0/1 < cudaMemcpy =cudaSuccess\n",
      step, direction);
}

std::string nothing(int /*step*/) {
  return "";
}

TEST(MemoryFirstPass, LayersOneAfterTheOtherAreNoSteps) {
  EXPECT_EQ(growing_in(job("", nothing)), 0u);
  EXPECT_EQ(growing_in(job(kSynchronizes, nothing)), 0u);
}

TEST(MemoryFirstPass, WhatALayerFreesItselfBringsNothingBack) {
  EXPECT_EQ(growing_in(job("", [](int step) { return comes_and_goes(step, kOfLayer); })), 0u);
}

TEST(MemoryFirstPass, ABatchThatIsFreedAgainAndAgainMakesSteps) {
  EXPECT_EQ(growing_in(job("", [](int step) { return comes_and_goes(step, kOfJob); })), 1u);
  EXPECT_EQ(growing_in(job("",
                           [](int step) {
                             return step % 3 == 0 ? comes_and_goes(step, kOfJob) : std::string();
                           })),
            1u);
}

TEST(MemoryFirstPass, WhatIsFreedAtItsBeginningAloneDoesNot) {
  EXPECT_EQ(
      growing_in(job(
          "", [](int step) { return step <= 9 ? comes_and_goes(step, kOfJob) : std::string(); })),
      0u);
}

TEST(MemoryFirstPass, ResultsAndDataThatAreCopiedMakeSteps) {
  EXPECT_EQ(growing_in(job("", [](int step) { return copied(step, "d2h"); })), 1u);
  EXPECT_EQ(growing_in(job("", [](int step) { return copied(step, "h2d"); })), 1u);
  EXPECT_EQ(growing_in(job("", [](int step) { return copied(step, "d2d"); })), 0u);
}

TEST(MemoryFirstPass, BehindABackwardPassItIsNoFirstOne) {
  EXPECT_EQ(growing_in(job(kBackward, nothing)), 1u);
}

}  // namespace
}  // namespace traintrace
