// A device's linear memory: first fit, real fragmentation, documented errors, zeros after reuse.
#include <map>
#include <random>

#include "memory_support.h"

namespace {

const bool g_alone = (be_alone(), true);

constexpr size_t kTotal = 64 << 20;
constexpr size_t kUnit = 512;

using Layout = DriverTest;

TEST_F(Layout, InfoCountsWhatIsAllocated) {
  size_t free = 0, total = 0;
  CU_OK(cuMemGetInfo(&free, &total));
  EXPECT_EQ(total, kTotal);
  EXPECT_EQ(free, kTotal);
  const CUdeviceptr a = allocate(1000);
  EXPECT_EQ(free_bytes(), kTotal - 1024);
  CU_OK(cuMemFree(a));
  EXPECT_EQ(free_bytes(), kTotal);
}

TEST_F(Layout, RefusesWhatCannotBe) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(&address, kTotal + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&address, ~size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
  int on_stack = 0;
  EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(&on_stack)), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr a = allocate(4096);
  EXPECT_EQ(cuMemFree(a + 512), CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuMemFree(a));
  EXPECT_EQ(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Layout, FragmentationRunsOutOfMemory) {
  constexpr size_t kBlock = 1 << 20;
  std::vector<CUdeviceptr> blocks;
  for (size_t i = 0; i < kTotal / kBlock; ++i) {
    blocks.push_back(allocate(kBlock));
  }
  CUdeviceptr none = 0;
  EXPECT_EQ(cuMemAlloc(&none, 1), CUDA_ERROR_OUT_OF_MEMORY);
  for (size_t i = 0; i < blocks.size(); i += 2) {
    CU_OK(cuMemFree(blocks[i]));
  }
  EXPECT_EQ(free_bytes(), kTotal / 2);
  EXPECT_EQ(cuMemAlloc(&none, kBlock + 1), CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr first = allocate(kBlock);
  EXPECT_EQ(first, blocks[0]);
  CU_OK(cuMemFree(blocks[1]));
  EXPECT_EQ(allocate(2 * kBlock), blocks[1]);  // merged with the free block behind it
}

TEST_F(Layout, ReusedMemoryReadsAsZeros) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const size_t before = 512 * (random() % 20 + 1), bytes = 1 + random() % 50'000;
    const CUdeviceptr left = allocate(before);
    const CUdeviceptr a = allocate(bytes);
    const CUdeviceptr right = allocate(512);
    CU_OK(cuMemsetD8(left, 0x11, before));
    CU_OK(cuMemsetD8(a, 0xab, bytes));
    CU_OK(cuMemsetD8(right, 0x22, 512));
    CU_OK(cuMemFree(a));
    const CUdeviceptr again = allocate(bytes);
    ASSERT_EQ(again, a);
    std::vector<unsigned char> seen(bytes, 1), neighbour(before);
    CU_OK(cuMemcpyDtoH(seen.data(), again, bytes));
    ASSERT_EQ(seen, std::vector<unsigned char>(bytes, 0));
    CU_OK(cuMemcpyDtoH(neighbour.data(), left, before));
    ASSERT_EQ(neighbour, std::vector<unsigned char>(before, 0x11));
    unsigned char at_right[512];
    CU_OK(cuMemcpyDtoH(at_right, right, 512));
    ASSERT_EQ(at_right[0], 0x22);
    CU_OK(cuMemFree(again));
    CU_OK(cuMemFree(left));
    CU_OK(cuMemFree(right));
  }
}

// The plainest possible layout: one flag per 512 bytes.
class Model {
 public:
  // Offset in units, or -1.
  long take(size_t units) {
    size_t run = 0;
    for (size_t i = 0; i < used_.size(); ++i) {
      run = used_[i] ? 0 : run + 1;
      if (run == units) {
        const size_t start = i + 1 - units;
        std::fill_n(used_.begin() + static_cast<long>(start), units, true);
        return static_cast<long>(start);
      }
    }
    return -1;
  }
  void give(size_t start, size_t units) {
    std::fill_n(used_.begin() + static_cast<long>(start), units, false);
  }

 private:
  std::vector<bool> used_ = std::vector<bool>(kTotal / kUnit, false);
};

TEST_F(Layout, IsFirstFitForAnyHistory) {
  const CUdeviceptr base = allocate(1);
  CU_OK(cuMemFree(base));
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    Model model;
    std::map<CUdeviceptr, size_t> live;
    for (int step = 0; step < 400; ++step) {
      if (!live.empty() && random() % 5 < 2) {
        auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
        CU_OK(cuMemFree(victim->first));
        model.give((victim->first - base) / kUnit, (victim->second + kUnit - 1) / kUnit);
        live.erase(victim);
        continue;
      }
      const size_t bytes = random() % 4 ? random() % 100'000 + 1 : random() % (kTotal / 4) + 1;
      const long expected = model.take((bytes + kUnit - 1) / kUnit);
      CUdeviceptr address = 0;
      const CUresult result = cuMemAlloc(&address, bytes);
      if (expected < 0) {
        ASSERT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY) << "seed " << seed << " step " << step;
      } else {
        ASSERT_EQ(result, CUDA_SUCCESS) << "seed " << seed << " step " << step;
        ASSERT_EQ(address, base + static_cast<size_t>(expected) * kUnit);
        live.emplace(address, bytes);
      }
    }
    for (const auto& [address, bytes] : live) {
      CU_OK(cuMemFree(address));
    }
    ASSERT_EQ(free_bytes(), kTotal);
  }
}

TEST_F(Layout, FreeWaitsForTheContextsWork) {
  const CUdeviceptr a = allocate(4096);
  CUstream stream;
  CU_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Blocker blocker(stream);
  Watched free(context_, [&] { return cuMemFree(a); });
  EXPECT_FALSE(free.returns_within(std::chrono::milliseconds(50)));
  blocker.release();
  EXPECT_TRUE(free.returns_within(std::chrono::seconds(10)));
  EXPECT_EQ(free.result(), CUDA_SUCCESS);
}

TEST_F(Layout, ContextResetGivesEverythingBack) {
  allocate(1 << 20);
  void* pinned = nullptr;
  CU_OK(cuMemAllocHost(&pinned, 4096));
  CU_OK(cuDevicePrimaryCtxReset(0));
  CU_OK(cuDevicePrimaryCtxRetain(&context_, 0));
  CU_OK(cuCtxSetCurrent(context_));
  EXPECT_EQ(free_bytes(), kTotal);
  unsigned flags = 0;
  EXPECT_EQ(cuMemHostGetFlags(&flags, pinned), CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuDevicePrimaryCtxRelease(0));
}

TEST_F(Layout, PitchKeepsRowsAligned) {
  CUdeviceptr address = 0;
  size_t pitch = 0;
  CU_OK(cuMemAllocPitch(&address, &pitch, 100, 7, 4));
  EXPECT_EQ(pitch, 512u);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CU_OK(cuMemGetAddressRange(&base, &bytes, address + 3000));
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 7 * pitch);
  EXPECT_EQ(cuMemAllocPitch(&address, &pitch, 100, 7, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, 4711), CUDA_ERROR_NOT_FOUND);
}

TEST_F(Layout, ManyThreadsAllocateDisjointMemory) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 100; ++i) {
        const size_t bytes = random() % 20'000 + 4;
        CUdeviceptr a = 0;
        ASSERT_EQ(cuMemAlloc(&a, bytes), CUDA_SUCCESS);
        ASSERT_EQ(cuMemsetD8(a, static_cast<unsigned char>(t + 1), bytes), CUDA_SUCCESS);
        std::vector<unsigned char> seen(bytes);
        ASSERT_EQ(cuMemcpyDtoH(seen.data(), a, bytes), CUDA_SUCCESS);
        ASSERT_EQ(seen, std::vector<unsigned char>(bytes, static_cast<unsigned char>(t + 1)));
        ASSERT_EQ(cuMemFree(a), CUDA_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(free_bytes(), kTotal);
}

}  // namespace
