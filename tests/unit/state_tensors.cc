// uses: state
// The tables of PyTorch's allocator, and what is kept of the times that memory ran out.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "interpose/tables/failures.h"
#include "interpose/tables/tensors.h"
#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using format::CallId;
using testing_world::Sizes;
using testing_world::World;

std::map<uint64_t, uint64_t> live(World& world) {
  std::map<uint64_t, uint64_t> found;
  for (uint32_t i = 0; i < world.sizes().tensor_blocks; ++i) {
    const auto& block = world.table<format::TensorBlock>(format::kTensorBlocks)[i];
    if (block.address != 0 && !format::is_freed(block)) {
      EXPECT_TRUE(found.emplace(block.address, block.bytes).second) << block.address;
    }
  }
  return found;
}

const format::TensorDevice& device(World& world, int number) {
  return world.table<format::TensorDevice>(format::kTensorDevices)[number];
}

void report(uint64_t address, int64_t change, uint64_t allocated, uint8_t on = 0,
            uint64_t ticks = 1) {
  tensor_reported({address, change, true, allocated, 4096, on, 7, ticks});
}

TEST(Tensors, BlocksAndTotalsFollowTheReports) {
  World world;
  report(0x1000, 512, 512, 0, 1);
  report(0x2000, 1024, 1536, 0, 2);
  report(0x5000, 512, 512, 3, 3);
  report(0x1000, -512, 1024, 0, 4);
  EXPECT_EQ(live(world), (std::map<uint64_t, uint64_t>{{0x2000, 1024}, {0x5000, 512}}));
  const format::TensorDevice& first = device(world, 0);
  EXPECT_EQ(first.ticks, 4u);
  EXPECT_EQ(first.allocated, 1024u);
  EXPECT_EQ(first.reserved, 4096u);
  EXPECT_EQ(first.peak_allocated, 1536u);
  EXPECT_EQ(first.peak_ticks, 2u);
  EXPECT_EQ(first.before, 0u);
  EXPECT_EQ(first.allocations, 2u);
  EXPECT_EQ(first.frees, 1u);
  EXPECT_EQ(first.change, 1024);
  EXPECT_EQ(device(world, 3).allocated, 512u);
  EXPECT_EQ(device(world, 1).ticks, 0u);
}

TEST(Tensors, AFreedBlockSaysWhenUntilItsPlaceIsTakenAgain) {
  World world;
  report(0x1000, 512, 512, 0, 5);
  report(0x1000, -512, 0, 0, 9);
  const auto* const blocks = world.table<format::TensorBlock>(format::kTensorBlocks);
  const auto* const end = blocks + world.sizes().tensor_blocks;
  const auto* const freed = std::find_if(blocks, end, format::is_freed);
  ASSERT_NE(freed, end);
  EXPECT_EQ(format::freed_ticks(*freed), 9u);
  EXPECT_EQ(freed->ticks, 5u);
  EXPECT_EQ(freed->bytes, 512u);
  EXPECT_EQ(freed->stack, 7u);
  report(0x1000, 1024, 1024, 0, 11);
  EXPECT_EQ(std::find_if(blocks, end, format::is_freed), end);
}

TEST(Tensors, WhatWasThereBeforeIsToldApart) {
  World world;
  report(0x9000, -512, 3584);
  EXPECT_EQ(device(world, 0).before, 4096u);
  EXPECT_EQ(device(world, 0).change, -512);
  EXPECT_EQ(world.stat(format::Stat::UnknownTensorFree), 1u);
  report(0x9000, 512, 4096);
  EXPECT_EQ(device(world, 0).before, 4096u);
}

TEST(Tensors, AReportWithoutAddressIsCounted) {
  World world;
  tensor_reported({0, 512, false, 0, 0, format::kNoDevice, 7, 1});
  EXPECT_TRUE(live(world).empty());
  EXPECT_EQ(world.stat(format::Stat::TensorWithoutAddress), 1u);
}

TEST(Tensors, AFullTableCounts) {
  Sizes sizes;
  sizes.tensor_blocks = 64;
  World world(sizes);
  for (uint64_t i = 1; i <= 100; ++i) {
    report(i * 512, 512, i * 512);
  }
  const size_t there = live(world).size();
  EXPECT_GT(there, 50u);
  EXPECT_EQ(world.stat(format::Stat::TensorBlocksFull), 100u - there);
}

TEST(Tensors, ALongHistoryLeavesWhatIsLive) {
  Sizes sizes;
  sizes.tensor_blocks = 1024;
  World world(sizes);
  std::mt19937 random(1);
  std::map<uint64_t, uint64_t> expected;
  uint64_t total = 0;
  for (int i = 0; i < 50'000; ++i) {
    const uint64_t address = 512 * (1 + random() % 600);
    const auto found = expected.find(address);
    if (found == expected.end()) {
      const uint64_t bytes = 512 * (1 + random() % 8);
      expected[address] = bytes;
      total += bytes;
      report(address, static_cast<int64_t>(bytes), total);
    } else {
      total -= found->second;
      report(address, -static_cast<int64_t>(found->second), total);
      expected.erase(found);
    }
  }
  EXPECT_EQ(live(world), expected);
  EXPECT_EQ(static_cast<uint64_t>(device(world, 0).change), total);
  EXPECT_EQ(device(world, 0).allocated, total);
}

std::map<uint32_t, format::OutOfMemory> failures(World& world) {
  std::map<uint32_t, format::OutOfMemory> found;
  for (uint32_t i = 0; i < 32; ++i) {
    const auto& failure = world.table<format::OutOfMemory>(format::kOutOfMemory)[i];
    if (failure.ticks != 0) {
      EXPECT_TRUE(found.emplace(failure.number, failure).second);
    }
  }
  return found;
}

int held_of(World& world, uint32_t number) {
  int count = 0;
  for (uint32_t i = 0; i < world.sizes().held_blocks; ++i) {
    const auto& block = world.table<format::HeldBlock>(format::kHeldBlocks)[i];
    count += block.address != 0 && block.number == number ? 1 : 0;
  }
  return count;
}

constexpr auto kMalloc = static_cast<uint16_t>(CallId::cudaMalloc);
constexpr uint16_t kReport = format::id_of(format::Moment::reportOutOfMemoryToProfiler);

void fail(World& world, FailureSort sort, uint64_t bytes, uint64_t ticks = 9) {
  const bool call = sort == FailureSort::kCall;
  memory_ran_out(world.thread(), sort,
                 {call ? kMalloc : kReport, call ? 2 : 0, 0, bytes, 0, 0, 7, ticks});
}

TEST(Failures, HaveWhatWasLiveAndWhatTheJobWasTold) {
  World world;
  world.thread().device = 0;
  allocated(world.thread(), CallId::cudaMalloc, 0x100000, 4096, 0, 5, 1);
  report(0x100000, 512, 512);
  memory_asked(world.thread(), 100, 1000, 3);
  world.thread().device = 1;
  memory_asked(world.thread(), 1, 2, 4);
  fail(world, FailureSort::kCall, 64);
  const auto found = failures(world);
  ASSERT_EQ(found.size(), 1u);
  const format::OutOfMemory& failure = found.at(1);
  EXPECT_EQ(failure.free, 100u);
  EXPECT_EQ(failure.total, 1000u);
  EXPECT_EQ(failure.asked_ticks, 3u);
  EXPECT_EQ(failure.bytes, 64u);
  EXPECT_EQ(failure.result, 2);
  EXPECT_EQ(failure.held, 2u);
  EXPECT_EQ(failure.not_held, 0u);
  const auto& blocks = world.table<format::HeldBlock>(format::kHeldBlocks);
  EXPECT_EQ(blocks[0].call, kMalloc);
  EXPECT_EQ(blocks[0].bytes, 4096u);
  EXPECT_EQ(blocks[1].call, format::id_of(format::Moment::reportMemoryUsageToProfiler));
  EXPECT_EQ(blocks[1].bytes, 512u);
}

TEST(Failures, TheFirstAndTheNewestOfEachSortAreKept) {
  World world;
  for (uint64_t i = 0; i < 100; ++i) {
    fail(world, FailureSort::kCall, 1000 + i);
  }
  fail(world, FailureSort::kReport, 1);
  const auto found = failures(world);
  ASSERT_EQ(found.size(), 17u);
  for (const uint32_t number : {1u, 8u, 93u, 100u, 101u}) {
    EXPECT_TRUE(found.contains(number)) << number;
  }
  EXPECT_EQ(found.at(100).bytes, 1099u);
  EXPECT_EQ(world.stat(format::Stat::FailuresReplaced), 84u);
}

TEST(Failures, WhatDoesNotFitIsCounted) {
  World world;  // room for 64
  for (uint64_t i = 1; i <= 70; ++i) {
    allocated(world.thread(), CallId::cudaMalloc, i << 20, 8, 0, 0, 1);
  }
  fail(world, FailureSort::kReport, 1);
  EXPECT_EQ(failures(world).at(1).held, 64u);
  EXPECT_EQ(failures(world).at(1).not_held, 6u);
  // The copy of an earlier one goes to a later one, whole.
  for (uint64_t i = 1; i <= 60; ++i) {
    freed(world.thread(), CallId::cudaFree, i << 20);
  }
  fail(world, FailureSort::kReport, 1);
  EXPECT_EQ(failures(world).at(2).held, 10u);
  EXPECT_EQ(held_of(world, 2), 10);
}

TEST(Failures, ThreadsMayFailAndAllocateAtOnce) {
  World world;
  for (uint32_t i = 0; i < 3; ++i) {
    world.thread(i);
  }
  std::thread other([&] {
    for (uint64_t i = 1; i < 3000; ++i) {
      allocated(world.thread(1), CallId::cudaMalloc, i << 20, 8, 0, 0, i);
      freed(world.thread(1), CallId::cudaFree, i << 20);
      memory_asked(world.thread(1), i, i, i);
    }
  });
  std::thread third([&] {
    for (uint64_t i = 1; i < 300; ++i) {
      memory_ran_out(world.thread(2), FailureSort::kCall, {kMalloc, 2, 0, i, 0, 0, 0, i});
    }
  });
  for (uint64_t i = 1; i < 300; ++i) {
    fail(world, FailureSort::kReport, i, i);
  }
  other.join();
  third.join();
  EXPECT_EQ(failures(world).size(), 32u);
}

}  // namespace
}  // namespace traintrace
