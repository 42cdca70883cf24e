// uses: state
// Names of kernels, from registrations long before recording starts.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using testing_world::World;

std::vector<std::pair<uint64_t, std::string>> names(World& world) {
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const auto* head : world.definitions(format::kKernel)) {
    const auto& kernel = *reinterpret_cast<const format::KernelDefinition*>(head);
    found.emplace_back(kernel.function,
                       std::string(reinterpret_cast<const char*>(&kernel + 1), kernel.name_bytes));
  }
  return found;
}

using Names = std::vector<std::pair<uint64_t, std::string>>;

TEST(Kernels, AreDefinedAtTheirFirstLaunch) {
  kernel_registered(0x400010, "_Z3addPf");
  World world;
  kernel_registered(0x400020, "_Z3mulPf");
  kernel_registered(0x400030, "_Z5neverv");
  kernel_launched(world.thread(), 0x400020);
  kernel_launched(world.thread(), 0x400010);
  kernel_launched(world.thread(), 0x400010);
  kernel_launched(world.thread(), 0x400020);
  EXPECT_EQ(names(world), (Names{{0x400020, "_Z3mulPf"}, {0x400010, "_Z3addPf"}}));
}

TEST(Kernels, AreKnownToANewTraceToo) {
  World world;
  kernel_launched(world.thread(), 0x400010);
  EXPECT_EQ(names(world), (Names{{0x400010, "_Z3addPf"}})) << "as in a forked child";
}

TEST(Kernels, WithoutANameAreNotAskedForAgain) {
  World world;
  kernel_launched(world.thread(), 0x999990);
  kernel_launched(world.thread(), 0);
  EXPECT_TRUE(names(world).empty());
}

TEST(Kernels, OfTheDriverAreNamedAtOnce) {
  World world;
  {
    std::string name = "triton_poi_fused_add_0";
    kernel_named(world.thread(), 0x55550000, name.c_str());
    name.assign("overwritten by its owner");
  }
  kernel_launched(world.thread(), 0x55550000);
  kernel_named(world.thread(), 0x55550000, "of another module");  // the handle is used again
  EXPECT_EQ(names(world),
            (Names{{0x55550000, "triton_poi_fused_add_0"}, {0x55550000, "of another module"}}));
}

TEST(Kernels, AtTheAddressOfOneThatIsGone) {
  World world;
  std::string gone = "of a library that was unloaded";
  kernel_registered(0x400040, gone.c_str());
  kernel_launched(world.thread(), 0x400040);
  kernel_registered(0x400040, "of the library that came");
  kernel_launched(world.thread(), 0x400040);
  EXPECT_EQ(names(world).back().second, "of the library that came");
  EXPECT_EQ(names(world).size(), 2u);
}

TEST(Kernels, WhoseNameCannotBeReadHaveNone) {
  World world;
  char* const page = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(page, 'k', 4096);
  kernel_registered(0x400050, page + 4090);  // runs into the next page
  kernel_registered(0x400060, page + 4096);
  ASSERT_EQ(munmap(page + 4096, 4096), 0);
  kernel_launched(world.thread(), 0x400050);
  kernel_launched(world.thread(), 0x400060);
  EXPECT_EQ(names(world), (Names{{0x400050, "kkkkkk"}, {0x400060, ""}}));
  munmap(page, 4096);
}

TEST(Kernels, LongNamesAreCut) {
  World world;
  const std::string name(10000, 'n');
  kernel_named(world.thread(), 0x60, name.c_str());
  EXPECT_EQ(names(world).back().second.size(), 4096u);
}

TEST(Kernels, RegisterByTheHundredThousandFromManyThreads) {
  World world;
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEach = 30000;
  std::vector<std::string> storage(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    storage[t] = "kernel of thread " + std::to_string(t);
    threads.emplace_back([&storage, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        kernel_registered(0x7f0000000000 + (t * kEach + i) * 48, storage[t].c_str());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  Names expected;
  for (uint64_t t = 0; t < kThreads; ++t) {
    for (uint64_t i = 0; i < kEach; i += 999) {
      const uint64_t function = 0x7f0000000000 + (t * kEach + i) * 48;
      kernel_launched(world.thread(), function);
      expected.emplace_back(function, storage[t]);
    }
  }
  EXPECT_EQ(names(world), expected);
}

}  // namespace
}  // namespace traintrace
