// uses: analyzer
// Who held the memory when an allocation failed: the role of each block, and its line.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/memory/holders/holders.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace {
namespace {

// Ten steps of one launch a second each; step 11 has launched and fails at +11.5.
std::string job(const std::string& blocks, const std::string& held) {
  std::string text =
      "ranks 0\n"
      "stack 1 train.py:3:build\nstack 2 train.py:8:forward\nstack 3 train.py:9:evaluate\n"
      "module 0x7f3100000000-0x7f3101000000 bias=0x7f3100000000 path=/usr/lib/libc10_cuda.so\n"
      "stack 4 0x7f3100001234\n"
      "out-of-memory 1 at=+11.5 call=reportOutOfMemoryToProfiler bytes=4096 device=0 "
      "allocated=8192 reserved=8192 free=0 total=16384 @2\n";
  for (const char each : held) {
    text += fmt::format("held 1 0x{}000 bytes=1024 call=reportMemoryUsageToProfiler device=0 @{}\n",
                        each,
                        each == 'a'   ? 1
                        : each == 'c' ? 3
                        : each == 'd' ? 4
                                      : 2);
  }
  return text + blocks + "+1 0 calls cudaLaunchKernel x11 every=1s @train.py:8:forward\nend +12\n";
}

std::string born(const char* time, char address, int stack);

// What lines 1 and 2 made for a moment in a step long before: activations, as in each.
std::string of_a_step_before() {
  return born("+4.2", 'e', 1) + born("+4.3", 'f', 2);
}

std::string born(const char* time, char address, int stack) {
  return fmt::format(
      "{} 0/1 * reportMemoryUsageToProfiler address=0x{}000 change=1024 allocated=1024 "
      "reserved=8192 @{} on-device=0\n",
      time, address, stack);
}

std::vector<MemoryHolder> holders_of(const std::string& text) {
  Result<DumpText> dump = parse_dump(text, "test");
  if (!dump) {
    ADD_FAILURE() << dump.error().message;
    return {};
  }
  const ProcessTrace& trace = dump->processes.front();
  return holders_at(trace, history_of(trace), trace.out_of_memory.at(0));
}

MemoryRole role_of(const char* time, int stack = 1) {
  const std::vector<MemoryHolder> holders = holders_of(
      job(of_a_step_before() + born(time, stack == 1 ? 'a' : 'b', stack), stack == 1 ? "a" : "b"));
  EXPECT_EQ(holders.size(), 1u);
  return holders.empty() ? MemoryRole::kUnknown : holders[0].role;
}

TEST(MemoryHolders, AreToldByTheStepsThatABlockLivedThrough) {
  EXPECT_EQ(role_of("+0.5"), MemoryRole::kState);
  EXPECT_EQ(role_of("+1.5"), MemoryRole::kState) << "gradients, made in the first step";
  EXPECT_EQ(role_of("+5.5"), MemoryRole::kKept);
  EXPECT_EQ(role_of("+9.9"), MemoryRole::kKept);
  EXPECT_EQ(role_of("+10.5"), MemoryRole::kPassing) << "its round of the loop may be the last";
  EXPECT_EQ(role_of("+11.4"), MemoryRole::kPassing);
}

TEST(MemoryHolders, OfOneLineMayHaveSeveralRoles) {
  const std::vector<MemoryHolder> holders = holders_of(
      job(of_a_step_before() + born("+0.5", 'b', 2) + born("+11.2", 'e', 2) + born("+11.3", 'f', 2),
          "bef"));
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].role, MemoryRole::kPassing);
  EXPECT_EQ(holders[0].blocks, 2u);
  EXPECT_EQ(holders[1].role, MemoryRole::kState);
}

TEST(MemoryHolders, ABlockIsAsOldAsItsNewestAllocation) {
  const std::vector<MemoryHolder> holders =
      holders_of(job(of_a_step_before() + born("+0.5", 'b', 2) + born("+11.2", 'b', 2), "b"));
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].role, MemoryRole::kPassing);
}

TEST(MemoryHolders, WhatNoStepBeforeMadeIsNoActivation) {
  EXPECT_EQ(holders_of(job(born("+11.2", 'b', 2), "b")).at(0).role, MemoryRole::kNew);
}

TEST(MemoryHolders, WhatManyStepsKeptIsLeftByThem) {
  std::string born_in_steps;
  for (int i = 0; i < 8; ++i) {
    born_in_steps += born(fmt::format("+{}.5", 2 + i).c_str(), "12345678"[i], 2);
  }
  EXPECT_TRUE(is_left_by_steps(holders_of(job(born_in_steps, "12345678")).at(0)));
  EXPECT_FALSE(is_left_by_steps(holders_of(job(born_in_steps, "1234567")).at(0)));
}

TEST(MemoryHolders, WithoutALineOfTheirOwnHaveTheOneBefore) {
  const std::vector<MemoryHolder> holders =
      holders_of(job(born("+11.2", 'c', 3) + born("+11.3", 'd', 4), "cd"));
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].place, "train.py:9 in evaluate");
  EXPECT_EQ(holders[1].place, holders[0].place);
  EXPECT_NE(holders[0].place_is, holders[1].place_is);
}

TEST(MemoryHolders, OfUnrecordedBirthAreOld) {
  const std::vector<MemoryHolder> holders = holders_of(job(born("+4.2", 'e', 6), "d"));
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].role, MemoryRole::kState);
  EXPECT_EQ(holders[0].place, "");
}

// No allocation was recorded at all: nothing says that it is from before the steps.
TEST(MemoryHolders, OfAJobWithoutBirthsAreOfUnknownAge) {
  EXPECT_EQ(holders_of(job("", "d")).at(0).role, MemoryRole::kUnknown);
}

// Larger tensors of one line come by other functions of PyTorch.
TEST(MemoryHolders, WhatTheSameLineMadeInAStepBeforeIsAnActivation) {
  std::string text = job(born("+4.2", 'e', 6) + born("+11.2", 'b', 2), "b");
  text.insert(text.find("stack 4"), "stack 6 train.py:8:forward 0x7f3100005678\n");
  EXPECT_EQ(holders_of(text).at(0).role, MemoryRole::kPassing);
}

// One step, whose layers repeat ten times: the optimizer's first step does not fit.
std::vector<MemoryHolder> holders_in_first_optimizer_step(const std::string& then) {
  return holders_of(
      "ranks 0\nmodule 0x7f3100000000-0x7f3101000000 bias=0x7f3100000000 "
      "path=/usr/lib/libc10_cuda.so\n"
      "stack 1 train.py:3:build\nstack 2 train.py:8:forward\nstack 4 0x7f3100001234\n"
      "stack 5 /usr/lib/python3/dist-packages/torch/optim/adam.py:174:_init_group train.py:9:step\n"
      "out-of-memory 1 at=+11.5 call=reportOutOfMemoryToProfiler bytes=4096 device=0 "
      "allocated=8192 reserved=8192 free=0 total=16384 @5\n"
      "held 1 0xa000 bytes=1024 call=reportMemoryUsageToProfiler device=0 @5\n"
      "held 1 0xd000 bytes=1024 call=reportMemoryUsageToProfiler device=0 @4\n" +
      born("+9.5", 'd', 4) + born("+10.9", 'a', 5) + then +
      "+1 0 calls cudaLaunchKernel x10 every=1s @train.py:8:forward\nend +12\n");
}

TEST(MemoryHolders, OfTheFirstOptimizerStepAreStateAndGradients) {
  const std::vector<MemoryHolder> holders = holders_in_first_optimizer_step("");
  ASSERT_EQ(holders.size(), 2u);
  const bool optimizer_first = holders[0].role == MemoryRole::kOptimizer;
  EXPECT_EQ(holders[optimizer_first ? 0 : 1].role, MemoryRole::kOptimizer);
  EXPECT_EQ(holders[optimizer_first ? 1 : 0].role, MemoryRole::kGradients);
}

TEST(MemoryHolders, AfterAnOptimizerStepAreToldBySteps) {
  for (const MemoryHolder& holder : holders_in_first_optimizer_step(born("+11.1", 'c', 2))) {
    EXPECT_NE(holder.role, MemoryRole::kGradients);
  }
}

// PyTorch asks for it under the line that multiplies first; `function` is what is at
// 0x7f3200001234.
std::vector<MemoryHolder> holders_under(const std::string& function) {
  Result<DumpText> dump = parse_dump(
      "ranks 0\nstack 5 train.py:8:forward 0x7f3100001234 0x7f3200001234\n"
      "module 0x7f3100000000-0x7f3101000000 bias=0x7f3100000000 path=/usr/lib/libc10_cuda.so\n"
      "module 0x7f3200000000-0x7f3201000000 bias=0x7f3200000000 path=/usr/lib/libtorch_cuda.so\n"
      "out-of-memory 1 at=+11.5 call=reportOutOfMemoryToProfiler bytes=4096 device=0 "
      "allocated=8192 reserved=8192 free=0 total=16384 @5\n"
      "held 1 0x1000 bytes=1024 call=reportMemoryUsageToProfiler device=0 @5\n" +
          born("+0.5", '1', 5) +
          "+1 0 calls cudaLaunchKernel x11 every=1s @train.py:8:forward\nend +12\n",
      "test");
  if (!dump) {
    ADD_FAILURE() << dump.error().message;
    return {};
  }
  ProcessTrace& trace = dump->processes.front();
  trace.code[0x7f3200001234] = {function, "/usr/lib/libtorch_cuda.so", 0};
  return holders_at(trace, history_of(trace), trace.out_of_memory.at(0));
}

TEST(MemoryHolders, AWorkspaceOfCublasIsOfNoLine) {
  const std::vector<MemoryHolder> holders = holders_under("at::cuda::getCurrentCUDABlasHandle()");
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].role, MemoryRole::kWorkspace);
  EXPECT_EQ(holders[0].place, "");
}

// Its libraries are not on the machine where it is judged.
MemoryRole role_without_names(uint64_t bytes, const char* library) {
  return holders_of(
             fmt::format(
                 "ranks 0\nstack 5 train.py:8:forward 0x7f3100001234 0x7f3200001234\n"
                 "module 0x7f3100000000-0x7f3101000000 bias=0x7f3100000000 "
                 "path=/none/libc10_cuda.so\n"
                 "module 0x7f3200000000-0x7f3201000000 bias=0x7f3200000000 path=/none/{}\n"
                 "out-of-memory 1 at=+11.5 call=reportOutOfMemoryToProfiler bytes=4096 device=0 "
                 "allocated=8192 reserved=8192 free=0 total=16384 @5\n"
                 "held 1 0x1000 bytes={} call=reportMemoryUsageToProfiler device=0 @5\n{}"
                 "+1 0 calls cudaLaunchKernel x11 every=1s @train.py:8:forward\nend +12\n",
                 library, bytes, born("+0.5", '1', 5)))
      .at(0)
      .role;
}

TEST(MemoryHolders, AWorkspaceOfCublasIsToldByItsSizeAndLibrary) {
  EXPECT_EQ(role_without_names(33554432, "libtorch_cuda.so"), MemoryRole::kWorkspace);
  EXPECT_EQ(role_without_names(8519680, "libtorch_cuda.so"), MemoryRole::kWorkspace);
  EXPECT_EQ(role_without_names(33554432, "libtorch_cpu.so"), MemoryRole::kState) << "a tensor";
  EXPECT_EQ(role_without_names(33554944, "libtorch_cuda.so"), MemoryRole::kState);
}

TEST(MemoryHolders, WhatAMultiplicationReturnsIsOfItsLine) {
  const std::vector<MemoryHolder> holders = holders_under("at::native::structured_addmm_out_cuda");
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].role, MemoryRole::kState);
  EXPECT_EQ(holders[0].place, "train.py:8 in forward");
}

}  // namespace
}  // namespace traintrace
