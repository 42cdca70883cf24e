// uses: state
// The table of live allocations, which a leak is read from.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using format::CallId;
using testing_world::Sizes;
using testing_world::World;

std::map<uint64_t, uint64_t> live(World& world) {
  std::map<uint64_t, uint64_t> found;
  for (uint32_t i = 0; i < world.sizes().allocations; ++i) {
    const auto& element = world.table<format::Allocation>(format::kAllocations)[i];
    if (element.address > 1) {
      EXPECT_TRUE(found.emplace(element.address, element.bytes).second) << element.address;
    }
  }
  return found;
}

void take(World& world, uint64_t address, uint64_t bytes, uint32_t thread = 0) {
  allocated(world.thread(thread), CallId::cudaMalloc, address, bytes, 0, 0, 1);
}
void give(World& world, uint64_t address, uint32_t thread = 0) {
  freed(world.thread(thread), CallId::cudaFree, address);
}

TEST(Allocations, AreThereWithAllThatIsKnown) {
  World world;
  world.thread().device = 3;
  allocated(world.thread(), CallId::cudaMalloc, 0x7f0000000000, 4096, 0x55, 77, 1234);
  const auto* table = world.table<format::Allocation>(format::kAllocations);
  const format::Allocation* found = nullptr;
  for (uint32_t i = 0; i < world.sizes().allocations; ++i) {
    found = table[i].address == 0x7f0000000000 ? &table[i] : found;
  }
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->bytes, 4096u);
  EXPECT_EQ(found->ticks, 1234u);
  EXPECT_EQ(found->stream, 0x55u);
  EXPECT_EQ(found->stack, 77u);
  EXPECT_EQ(found->call, static_cast<uint16_t>(CallId::cudaMalloc));
  EXPECT_EQ(found->device, 3);
  give(world, 0x7f0000000000);
  EXPECT_TRUE(live(world).empty());
}

uint8_t device_of_block(World& of, CallId call, bool chosen) {
  of.thread().device = format::kNoDevice;
  of.thread().device_chosen = chosen;
  allocated(of.thread(), call, 0x1000, 64, 0, 0, 1);
  const auto* table = of.table<format::Allocation>(format::kAllocations);
  for (uint32_t i = 0; i < of.sizes().allocations; ++i) {
    if (table[i].address == 0x1000) {
      return table[i].device;
    }
  }
  return 0xfe;
}

TEST(Allocations, AreOnDeviceZeroWhereNoneWasChosen) {
  World world;
  EXPECT_EQ(device_of_block(world, CallId::cudaMalloc, false), 0);
  EXPECT_EQ(device_of_block(world, CallId::cudaMallocPitch, false), 0);
  EXPECT_EQ(device_of_block(world, CallId::cudaMalloc, true), format::kNoDevice);
  // Of the stream's device, of any, of the host; the driver has no default.
  for (const CallId call :
       {CallId::cudaMallocAsync, CallId::cudaMallocFromPoolAsync, CallId::cudaMallocManaged,
        CallId::cudaMallocHost, CallId::cuMemAlloc_v2}) {
    EXPECT_EQ(device_of_block(world, call, false), format::kNoDevice);
  }
}

TEST(Allocations, AddressesAreHandedOutAgain) {
  World world;
  for (uint64_t i = 1; i < 5000; ++i) {
    take(world, 0x1000, i);
    if (i % 3 != 0) {  // else its free was not seen
      give(world, 0x1000);
    }
  }
  EXPECT_EQ(live(world), (std::map<uint64_t, uint64_t>{}));
  take(world, 0x1000, 7);
  EXPECT_EQ(live(world), (std::map<uint64_t, uint64_t>{{0x1000, 7}}));
  EXPECT_EQ(world.stat(format::Stat::UnknownFree), 0u);
}

TEST(Allocations, FreesOfTheUnknownAreCounted) {
  World world;
  give(world, 0x5000);
  give(world, 0);  // cudaFree(NULL) is how programs start CUDA
  take(world, 0x5000, 1);
  give(world, 0x5000);
  give(world, 0x5000);
  EXPECT_EQ(world.stat(format::Stat::UnknownFree), 2u);
}

// PyTorch's expandable segments: one reservation, a mapping per piece, unmapped in one call.
TEST(Allocations, OneCallUnmapsSeveralMappings) {
  constexpr uint64_t kPiece = uint64_t{2} << 20;
  constexpr uint64_t kBase = uint64_t{0x7f} << 40;
  World world;
  ThreadState& thread = world.thread();
  allocated(thread, CallId::cuMemAddressReserve, kBase, 100 * kPiece, 0, 0, 1);
  const auto map = [&](uint64_t piece, uint64_t pieces) {
    allocated(thread, CallId::cuMemMap, kBase + piece * kPiece, pieces * kPiece, 0, 0, 1);
  };
  map(0, 1);
  map(1, 10);
  map(12, 1);  // the one at 11 was not seen
  map(13, 2);
  freed_range(thread, CallId::cuMemUnmap, kBase, 13 * kPiece);
  EXPECT_EQ(live(world), (std::map<uint64_t, uint64_t>{{kBase, 100 * kPiece},
                                                       {kBase + 13 * kPiece, 2 * kPiece}}));
  freed_range(thread, CallId::cuMemUnmap, kBase + 13 * kPiece, 2 * kPiece);
  EXPECT_EQ(world.stat(format::Stat::UnknownFree), 0u);
  freed_range(thread, CallId::cuMemUnmap, kBase, kPiece);
  EXPECT_EQ(world.stat(format::Stat::UnknownFree), 1u);
  freed_range(thread, CallId::cuMemAddressFree, kBase, 100 * kPiece);
  EXPECT_TRUE(live(world).empty());
}

TEST(Allocations, OneThreadFreesWhatAnotherOneTook) {
  World world;
  take(world, 0x5000, 1, 0);
  give(world, 0x5000, 1);
  EXPECT_TRUE(live(world).empty());
}

TEST(Allocations, TooManyAreCountedAndRoomIsUsedAgain) {
  Sizes sizes;
  sizes.allocations = 64;
  World world(sizes);
  for (uint64_t i = 1; i <= 100; ++i) {
    take(world, i << 21, i);
  }
  EXPECT_EQ(live(world).size(), 64u);
  EXPECT_EQ(world.stat(format::Stat::AllocationsFull), 36u);
  for (uint64_t i = 1; i <= 100; ++i) {
    give(world, i << 21);
  }
  EXPECT_EQ(world.stat(format::Stat::UnknownFree), 36u);
  EXPECT_TRUE(live(world).empty());
  for (uint64_t i = 1; i <= 64; ++i) {
    take(world, i << 12, i);
  }
  EXPECT_EQ(live(world).size(), 64u);
}

TEST(Allocations, AreWhatAModelSays) {
  Sizes sizes;
  sizes.allocations = 1024;
  World world(sizes);
  std::mt19937_64 random(1);
  std::map<uint64_t, uint64_t> model;
  for (int i = 0; i < 200000; ++i) {
    // Like a caching allocator's: aligned to 2 MiB, from few places.
    const uint64_t address = 0x7f0000000000 + (random() % 3000) * (2 << 20);
    if (model.count(address) != 0) {
      give(world, address);
      model.erase(address);
    } else if (model.size() < 700) {
      take(world, address, static_cast<uint64_t>(i));
      model[address] = static_cast<uint64_t>(i);
    }
  }
  EXPECT_EQ(live(world), model);
  EXPECT_EQ(world.stat(format::Stat::AllocationsFull), 0u);
  EXPECT_EQ(world.stat(format::Stat::UnknownFree), 0u);
}

TEST(Allocations, OfManyThreadsDoNotMix) {
  Sizes sizes;
  sizes.allocations = 4096;
  World world(sizes);
  constexpr uint32_t kThreads = 8;
  world.thread(kThreads);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&world, t] {
      std::mt19937_64 random(t);
      std::vector<uint64_t> mine;
      for (uint64_t i = 0; i < 50000; ++i) {
        if (mine.size() < 300 && random() % 2 == 0) {
          mine.push_back((uint64_t{t} << 40 | i) << 9);
          take(world, mine.back(), t + 1, t);
        } else if (!mine.empty()) {
          give(world, mine.back(), t);
          mine.pop_back();
        }
      }
      while (mine.size() > 5) {
        give(world, mine.back(), t);
        mine.pop_back();
      }
      while (mine.size() < 5) {
        mine.push_back((uint64_t{t} << 40 | (mine.size() + 90000)) << 9);
        take(world, mine.back(), t + 1, t);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto found = live(world);
  EXPECT_EQ(found.size(), 5u * kThreads);
  for (const auto& [address, bytes] : found) {
    EXPECT_EQ(address >> 49, bytes - 1);
  }
  EXPECT_EQ(world.stat(format::Stat::UnknownFree), 0u);
}

}  // namespace
}  // namespace traintrace
