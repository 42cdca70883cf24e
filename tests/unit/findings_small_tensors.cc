// uses: analyzer
// Tensors of the smallest size that a job keeps: a few numbers of each step, or a graph.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// In each of 20 steps `places` lines keep `each` tensors of 512 bytes.
std::string job(int places, int each, const std::string& end = "") {
  std::string text =
      "process 0 rank=0 world=1 local=0 host=a pid=1000 alive=+2\n"
      "module 0x7f3100000000-0x7f3101000000 bias=0x7f3100000000 path=/usr/lib/libc10_cuda.so\n"
      "thread 1 tid=1000\nstack 8 train.py:120:train_step 0x7f3100001234\n"
      "tensor-device 0 at=+1.9 allocated=0 reserved=1073741824 peak-allocated=104857600 "
      "peak-reserved=1073741824 peak-at=+1 allocations=1 change=0\n";
  for (int place = 0; place < places; ++place) {
    text += fmt::format("stack {} model.py:{}:forward train.py:110:main 0x7f3100001234\n",
                        100 + place, place + 1);
  }
  text += end;
  int64_t us = 1'000'000;
  uint64_t count = 0;
  const auto at = [&] { return fmt::format("+{}.{:06}", us / 1'000'000, us % 1'000'000); };
  for (int step = 0; step < 20; ++step) {
    text += at() + " 0/1 > cudaLaunchKernel @8 on-device=0\n";
    us += 5;
    text += at() + " 0/1 < cudaLaunchKernel =cudaSuccess\n";
    us += 995;
    for (int i = 0; i < places * each; ++i, ++us) {
      text += fmt::format(
          "{} 0/1 * reportMemoryUsageToProfiler address={:#x} change=512 allocated={} "
          "reserved=1073741824 on-device=0 @{}\n",
          at(), 0x7f1000000000 + count * 512, (count + 1) * 512, 100 + i / each);
      ++count;
    }
  }
  return text;
}

Severity severity_of(const std::string& text) {
  Result<DumpText> dump = parse_dump(text, "test");
  EXPECT_TRUE(dump);
  const Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  const auto found =
      std::find_if(judged->findings.begin(), judged->findings.end(),
                   [](const Finding& finding) { return finding.code == "memory.growth-leak"; });
  EXPECT_NE(found, judged->findings.end());
  EXPECT_EQ(found->culprits.empty(), found->severity == Severity::kInfo);
  return found->severity;
}

TEST(SmallTensors, AFewNumbersOfAStepAreMeant) {
  EXPECT_EQ(severity_of(job(1, 1)), Severity::kInfo);
  EXPECT_EQ(severity_of(job(8, 8)), Severity::kInfo);
}

TEST(SmallTensors, AGraphOfThemIsALeak) {
  EXPECT_EQ(severity_of(job(13, 5)), Severity::kError);
  EXPECT_EQ(severity_of(job(1, 65)), Severity::kError);
}

TEST(SmallTensors, NothingIsMeantThatFilledTheDevice) {
  EXPECT_EQ(severity_of(job(
                1, 1,
                "out-of-memory 1 at=+1.9 call=reportOutOfMemoryToProfiler device=0 bytes=1048576 "
                "free=0 total=1073741824 @8\n")),
            Severity::kError);
}

}  // namespace
}  // namespace traintrace
