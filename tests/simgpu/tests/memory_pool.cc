// Stream-ordered allocation: what is reused when, and what pools hold on to.
#include <map>
#include <random>

#include "memory_support.h"

namespace {

const bool g_alone = (be_alone("64M"), true);

constexpr size_t kTotal = 64 << 20;
constexpr size_t kMega = 1 << 20;
using std::chrono::milliseconds;

class Pools : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    CU_OK(cuDeviceGetDefaultMemPool(&pool_, 0));
    CU_OK(cuStreamCreate(&one_, CU_STREAM_NON_BLOCKING));
    CU_OK(cuStreamCreate(&two_, CU_STREAM_NON_BLOCKING));
    set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, uint64_t{0});
    set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, uint64_t{0});
    set(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1);
    set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
  }
  template <class T>
  void set(CUmemPool_attribute attribute, T value) {
    ASSERT_EQ(cuMemPoolSetAttribute(pool_, attribute, &value), CUDA_SUCCESS);
  }
  uint64_t get(CUmemPool_attribute attribute) {
    uint64_t value = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool_, attribute, &value), CUDA_SUCCESS);
    return value;
  }
  uint64_t reserved() { return get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
  uint64_t used() { return get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }
  static CUdeviceptr alloc(size_t bytes, CUstream stream) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAllocAsync(&address, bytes, stream), CUDA_SUCCESS);
    return address;
  }

  CUmemoryPool pool_ = nullptr;
  CUstream one_ = nullptr;
  CUstream two_ = nullptr;
};

TEST_F(Pools, SameStreamReusesAtOnce) {
  const CUdeviceptr a = alloc(10'000, one_);
  Blocker blocker(one_);
  CU_OK(cuMemsetD8Async(a, 1, 10'000, one_));
  CU_OK(cuMemFreeAsync(a, one_));
  EXPECT_EQ(alloc(10'000, one_), a);
  EXPECT_NE(alloc(10'000, two_), a);
}

TEST_F(Pools, SmallerReuseDoesNotBreakWorkBeforeTheFree) {
  const CUdeviceptr a = alloc(kMega, one_);
  Blocker blocker(one_);
  CU_OK(cuMemsetD8Async(a, 1, kMega, one_));
  CU_OK(cuMemFreeAsync(a, one_));
  const CUdeviceptr b = alloc(512, one_);
  EXPECT_EQ(b, a);
  CU_OK(cuMemsetD8Async(b, 2, 512, one_));
  EXPECT_EQ(cuMemsetD8Async(b, 2, 513, one_), CUDA_ERROR_INVALID_VALUE);
  blocker.release();
  CU_OK(cuStreamSynchronize(one_));
}

TEST_F(Pools, OtherStreamsReuseWhenTheFreeIsReached) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
  const CUdeviceptr a = alloc(kMega, one_);
  {
    Blocker blocker(one_);
    CU_OK(cuMemFreeAsync(a, one_));
    const CUdeviceptr b = alloc(kMega, two_);
    EXPECT_NE(b, a);
    CU_OK(cuMemFreeAsync(b, two_));
  }
  CU_OK(cuCtxSynchronize());
  EXPECT_EQ(alloc(kMega, two_), a);
}

TEST_F(Pools, InternalDependenciesComeLast) {
  const CUdeviceptr a = alloc(40 * kMega, one_);
  Blocker blocker(one_);
  CU_OK(cuMemFreeAsync(a, one_));
  // Nothing else is large enough: the second stream gets the memory and waits for the first on the
  // device.
  EXPECT_EQ(alloc(40 * kMega, two_), a);
  CU_OK(cuMemsetD8Async(a, 1, 40 * kMega, two_));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(cuStreamQuery(two_), CUDA_ERROR_NOT_READY);
  blocker.release();
  CU_OK(cuStreamSynchronize(two_));
  CU_OK(cuMemFreeAsync(a, two_));
}

TEST_F(Pools, WithoutInternalDependenciesThatIsOutOfMemory) {
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
  const CUdeviceptr a = alloc(40 * kMega, one_);
  {
    Blocker blocker(one_);
    CU_OK(cuMemFreeAsync(a, one_));
    CUdeviceptr b = 0;
    EXPECT_EQ(cuMemAllocAsync(&b, 40 * kMega, two_), CUDA_ERROR_OUT_OF_MEMORY);
  }
  CU_OK(cuStreamSynchronize(one_));
  EXPECT_NE(alloc(40 * kMega, two_), 0u);
}

TEST_F(Pools, ReleasesDownToTheThresholdAtSynchronisation) {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(alloc(4 * kMega, one_));
  }
  EXPECT_EQ(reserved(), 32 * kMega);
  EXPECT_EQ(used(), 32 * kMega);
  EXPECT_EQ(free_bytes(), kTotal - 32 * kMega);
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, uint64_t{8 * kMega});
  for (const CUdeviceptr block : blocks) {
    CU_OK(cuMemFreeAsync(block, one_));
  }
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(reserved(), 32 * kMega);  // nothing was synchronised yet
  CU_OK(cuStreamSynchronize(one_));
  EXPECT_EQ(reserved(), 8 * kMega);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 32 * kMega);
  CU_OK(cuMemPoolTrimTo(pool_, 5 * kMega));
  EXPECT_EQ(reserved(), 8 * kMega);  // another chunk less would be below the limit
  CU_OK(cuMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(free_bytes(), kTotal);
  uint64_t nonsense = 5;
  EXPECT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &nonsense),
            CUDA_ERROR_INVALID_VALUE);
  set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, uint64_t{0});
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0u);
}

TEST_F(Pools, OwnPoolsHaveLimitsAndOutliveTheirHandle) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = 8 * kMega;
  CUmemoryPool own;
  CU_OK(cuMemPoolCreate(&own, &properties));
  CUdeviceptr a = 0, b = 0;
  CU_OK(cuMemAllocFromPoolAsync(&a, 6 * kMega, own, one_));
  EXPECT_EQ(cuMemAllocFromPoolAsync(&b, 4 * kMega, own, one_), CUDA_ERROR_OUT_OF_MEMORY);
  CUmemoryPool seen;
  CU_OK(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
  EXPECT_EQ(seen, own);
  CU_OK(cuDeviceSetMemPool(0, own));
  CU_OK(cuDeviceGetMemPool(&seen, 0));
  EXPECT_EQ(seen, own);
  CU_OK(cuMemPoolDestroy(own));
  EXPECT_EQ(cuMemPoolDestroy(own), CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuDeviceGetMemPool(&seen, 0));
  EXPECT_EQ(seen, pool_);
  CU_OK(cuMemsetD8Async(a, 1, 6 * kMega, one_));  // still allocated
  EXPECT_EQ(free_bytes(), kTotal - 6 * kMega);
  CU_OK(cuMemFreeAsync(a, one_));
  CU_OK(cuStreamSynchronize(one_));
  EXPECT_EQ(free_bytes(), kTotal);
  EXPECT_EQ(cuMemPoolDestroy(pool_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(a, one_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pools, CuMemFreeDoesNotWait) {
  const CUdeviceptr a = alloc(kMega, one_);
  Blocker blocker(two_);
  CU_OK(cuMemFree(a));
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pools, AccessIsPerDevice) {
  CUmemLocation other = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemAccess_flags flags;
  CU_OK(cuMemPoolGetAccess(&flags, pool_, &other));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  const CUmemAccessDesc allow = {other, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CU_OK(cuMemPoolSetAccess(pool_, &allow, 1));
  CU_OK(cuMemPoolGetAccess(&flags, pool_, &other));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

// Two streams allocate, write, copy out and free at random; whatever is reused, no write of another
// may show.
TEST_F(Pools, NobodyEverSeesForeignBytes) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, uint64_t{16 * kMega});
  std::vector<std::thread> threads;
  for (const CUstream stream : {one_, two_}) {
    threads.emplace_back([this, stream] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      const unsigned char mark = stream == one_ ? 1 : 2;
      std::mt19937 random(mark);
      void* pinned = nullptr;
      constexpr size_t kMost = 200'000;
      ASSERT_EQ(cuMemAllocHost(&pinned, kMost), CUDA_SUCCESS);
      for (int i = 0; i < 300; ++i) {
        const size_t bytes = random() % kMost + 1;
        CUdeviceptr a = 0;
        ASSERT_EQ(cuMemAllocAsync(&a, bytes, stream), CUDA_SUCCESS);
        ASSERT_EQ(cuMemsetD8Async(a, mark, bytes, stream), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoHAsync(pinned, a, bytes, stream), CUDA_SUCCESS);
        ASSERT_EQ(cuMemFreeAsync(a, stream), CUDA_SUCCESS);
        if (random() % 8 == 0) {
          ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
          const auto* seen = static_cast<unsigned char*>(pinned);
          ASSERT_EQ(std::count(seen, seen + bytes, mark), static_cast<long>(bytes));
        }
      }
      ASSERT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(used(), 0u);
}

}  // namespace
