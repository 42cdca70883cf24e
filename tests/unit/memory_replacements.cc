// uses: analyzer
// What takes the place of something else does not make the job grow.
#include "analyzer/memory/growth/replacements.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

constexpr int kSteps = 40;
constexpr int kOld = 1;  // lines of the job
constexpr int kNew = 2;
constexpr int kMore = 3;

std::string report(const std::string& time, int address, int change, int stack) {
  return fmt::format(
      "+{} 0/1 * reportMemoryUsageToProfiler address=0x{:x}000 change={} allocated=8192 "
      "reserved=8192 @{} on-device=0\n",
      time, address + 16, change, stack);
}

// `in_step` is told each step, of a second, as the lines of the dump.
template <class InStep>
std::string job(int old_bytes, InStep in_step) {
  std::string text =
      "ranks 0\nstack 1 train.py:3:fill\nstack 2 train.py:9:replace\nstack 3 train.py:12:keep\n";
  for (int i = 1; i <= kSteps; ++i) {
    text += report(fmt::format("0.{:03}", i), i, old_bytes, kOld);
  }
  for (int i = 1; i <= kSteps; ++i) {
    text += in_step(i);
  }
  return text +
         fmt::format("+1 0 calls cudaLaunchKernel x{} every=1s @train.py:8:forward\nend +{}\n",
                     kSteps, kSteps + 1);
}

std::string made(int step, int stack, int bytes) {
  return report(fmt::format("{}.{}", step, stack), 100 * stack + step, bytes, stack);
}
std::string old_freed(int step, int which, int bytes) {
  return report(fmt::format("{}.4", step), which, -bytes, kOld);
}

std::vector<uint64_t> growing_in(const std::string& text) {
  Result<DumpText> dump = parse_dump(text, "test");
  if (!dump) {
    ADD_FAILURE() << dump.error().message;
    return {};
  }
  const ProcessTrace& trace = dump->processes.front();
  std::vector<uint64_t> bytes;
  for (const GrowingGroup& growing : GrowthJudge(trace, history_of(trace)).growing()) {
    bytes.push_back(growing.growth.bytes);
  }
  return bytes;
}

std::string replaces(int step, int old_bytes, int new_bytes) {
  return made(step, kNew, new_bytes) + old_freed(step, step, old_bytes);
}

TEST(MemoryReplacements, AsMuchOrLessThanWasThereIsNoGrowth) {
  for (const int bytes : {8192, 16384}) {
    EXPECT_TRUE(
        growing_in(job(16384, [&](int step) { return replaces(step, 16384, bytes); })).empty())
        << bytes;
  }
}

TEST(MemoryReplacements, MuchMoreThanWasThereIs) {
  EXPECT_EQ(growing_in(job(8192, [](int step) { return replaces(step, 8192, 65536); })).size(), 1u);
}

TEST(MemoryReplacements, WhatIsMadeWhileNothingIsFreedGrows) {
  EXPECT_EQ(growing_in(job(16384, [](int step) { return made(step, kNew, 16384); })).size(), 1u);
}

TEST(MemoryReplacements, WhatIsFreedAllAtOnceIsTheEndOfSomethingElse) {
  EXPECT_EQ(growing_in(job(16384,
                           [](int step) {
                             std::string text = made(step, kNew, 16384);
                             for (int i = 1; step == kSteps / 2 && i <= kSteps; ++i) {
                               text += old_freed(step, i, 16384);
                             }
                             return text;
                           }))
                .size(),
            1u);
}

TEST(MemoryReplacements, WhatTheSameLineMakesAnewIsNotLetGo) {
  const auto step_of = [](int step) {
    return made(step, kNew, 16384) + old_freed(step, step, 16384) +
           report(fmt::format("{}.5", step), step, 16384, kOld);
  };
  EXPECT_EQ(growing_in(job(16384, step_of)).size(), 1u);
}

TEST(MemoryReplacements, ALeakBesideThemIsFoundAllTheSame) {
  const std::vector<uint64_t> growing = growing_in(
      job(16384, [](int step) { return replaces(step, 16384, 16384) + made(step, kMore, 12288); }));
  ASSERT_EQ(growing.size(), 1u);
  EXPECT_EQ(growing[0], uint64_t{12288} * kSteps);
}

}  // namespace
}  // namespace traintrace
