// Virtual memory management: reservations, mappings, access, aliases.
#include "memory_support.h"

namespace {

const bool g_alone = (be_alone("64M"), true);

constexpr size_t kTotal = 64 << 20;
constexpr size_t kUnit = 2 << 20;  // the granularity

class Virtual : public DriverTest {
 protected:
  static CUmemAllocationProp device_memory(int device = 0) {
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return p;
  }
  static CUmemGenericAllocationHandle create(size_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp p = device_memory();
    EXPECT_EQ(cuMemCreate(&handle, bytes, &p, 0), CUDA_SUCCESS);
    return handle;
  }
  static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  static CUresult allow(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    return cuMemSetAccess(address, bytes, &access, 1);
  }
  static unsigned read(CUdeviceptr address) {
    unsigned value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, address, 4), CUDA_SUCCESS);
    return value;
  }
};

constexpr auto kReadWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

TEST_F(Virtual, GranularityIsTwoMegabytes) {
  const CUmemAllocationProp p = device_memory();
  size_t bytes = 0;
  CU_OK(cuMemGetAllocationGranularity(&bytes, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(bytes, kUnit);
  CUmemGenericAllocationHandle handle;
  EXPECT_EQ(cuMemCreate(&handle, kUnit + 4096, &p, 0), CUDA_ERROR_INVALID_VALUE);
  const CUmemAllocationProp elsewhere = device_memory(7);
  EXPECT_EQ(cuMemCreate(&handle, kUnit, &elsewhere, 0), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Virtual, PhysicalMemoryCountsAddressesDoNot) {
  const CUdeviceptr address = reserve(size_t{1} << 36);
  EXPECT_EQ(free_bytes(), kTotal);
  const auto handle = create(20 * kUnit);
  EXPECT_EQ(free_bytes(), kTotal - 20 * kUnit);
  CUmemGenericAllocationHandle none;
  const CUmemAllocationProp p = device_memory();
  EXPECT_EQ(cuMemCreate(&none, 20 * kUnit, &p, 0), CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr linear;
  EXPECT_EQ(cuMemAlloc(&linear, 20 * kUnit), CUDA_ERROR_OUT_OF_MEMORY);
  CU_OK(cuMemRelease(handle));
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(free_bytes(), kTotal);
  CU_OK(cuMemAddressFree(address, size_t{1} << 36));
}

TEST_F(Virtual, OneAllocationAtTwoAddresses) {
  const auto handle = create(2 * kUnit);
  const CUdeviceptr a = reserve(4 * kUnit), b = reserve(2 * kUnit);
  CU_OK(cuMemMap(a, kUnit, kUnit, handle, 0));  // the second half at a
  CU_OK(cuMemMap(b, 2 * kUnit, 0, handle, 0));
  CU_OK(allow(a, kUnit, kReadWrite));
  CU_OK(allow(b, 2 * kUnit, kReadWrite));
  CU_OK(cuMemsetD32(a, 0xdead, kUnit / 4));
  EXPECT_EQ(read(b), 0u);
  EXPECT_EQ(read(b + kUnit), 0xdeadu);
  CU_OK(cuMemRelease(handle));  // the mappings keep it
  EXPECT_EQ(read(b + 2 * kUnit - 4), 0xdeadu);
  EXPECT_EQ(free_bytes(), kTotal - 2 * kUnit);
  CUmemGenericAllocationHandle again;
  CU_OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(a + 5)));
  EXPECT_EQ(again, handle);
  CU_OK(cuMemRelease(again));
  CU_OK(cuMemUnmap(a, kUnit));
  CU_OK(cuMemUnmap(b, 2 * kUnit));
  EXPECT_EQ(free_bytes(), kTotal);
  CU_OK(cuMemAddressFree(a, 4 * kUnit));
  CU_OK(cuMemAddressFree(b, 2 * kUnit));
}

TEST_F(Virtual, NeighboursAreOneRangeForCopies) {
  const CUdeviceptr a = reserve(3 * kUnit);
  const auto first = create(kUnit), second = create(kUnit);
  CU_OK(cuMemMap(a, kUnit, 0, first, 0));
  CU_OK(cuMemMap(a + kUnit, kUnit, 0, second, 0));
  CU_OK(allow(a, 2 * kUnit, kReadWrite));
  std::vector<unsigned> host(2 * kUnit / 4, 7), back(host.size());
  CU_OK(cuMemcpyHtoD(a, host.data(), 2 * kUnit));
  CU_OK(cuMemcpyDtoH(back.data(), a, 2 * kUnit));
  EXPECT_EQ(back, host);
  EXPECT_EQ(cuMemcpyDtoH(back.data(), a + 4, 2 * kUnit), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CU_OK(cuMemGetAddressRange(&base, &bytes, a + kUnit + 8));
  EXPECT_EQ(base, a + kUnit);  // the mapping
  EXPECT_EQ(bytes, kUnit);
  CU_OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + kUnit + 8));
  EXPECT_EQ(base, a);  // the reservation
  CU_OK(cuMemUnmap(a, 2 * kUnit));
  CU_OK(cuMemRelease(first));
  CU_OK(cuMemRelease(second));
  CU_OK(cuMemAddressFree(a, 3 * kUnit));
}

TEST_F(Virtual, NoAccessBeforeItIsGranted) {
  const CUdeviceptr a = reserve(kUnit);
  const auto handle = create(kUnit);
  CU_OK(cuMemMap(a, kUnit, 0, handle, 0));
  unsigned value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, a, 4), CUDA_ERROR_INVALID_VALUE);
  unsigned long long flags = 9;
  const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CU_OK(cuMemGetAccess(&flags, &here, a));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CU_OK(allow(a, kUnit, kReadWrite));
  CU_OK(cuMemGetAccess(&flags, &here, a));
  EXPECT_EQ(flags, kReadWrite);
  EXPECT_EQ(read(a), 0u);
  CU_OK(cuMemUnmap(a, kUnit));
  CU_OK(cuMemMap(a, kUnit, 0, handle, 0));
  EXPECT_EQ(cuMemcpyDtoH(&value, a, 4), CUDA_ERROR_INVALID_VALUE);  // granted anew each time
  CU_OK(cuMemUnmap(a, kUnit));
  CU_OK(cuMemRelease(handle));
  CU_OK(cuMemAddressFree(a, kUnit));
}

TEST_F(Virtual, RefusesWhatDoesNotFit) {
  const CUdeviceptr a = reserve(2 * kUnit);
  const auto handle = create(kUnit);
  EXPECT_EQ(cuMemMap(a, 2 * kUnit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(a + 4096, kUnit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(a + 2 * kUnit, kUnit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuMemMap(a, kUnit, 0, handle, 0));
  EXPECT_EQ(cuMemMap(a, kUnit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(a, 2 * kUnit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(a, 2 * kUnit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(allow(a, 2 * kUnit, kReadWrite), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr none;
  EXPECT_EQ(cuMemAddressReserve(&none, 1000, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CU_OK(cuMemUnmap(a, kUnit));
  CU_OK(cuMemRelease(handle));
  CU_OK(cuMemAddressFree(a, 2 * kUnit));
}

TEST_F(Virtual, UnmappedBeforeTheWorkRunsIsAnIllegalAddress) {
  const CUdeviceptr a = reserve(kUnit);
  const auto handle = create(kUnit);
  CU_OK(cuMemMap(a, kUnit, 0, handle, 0));
  CU_OK(allow(a, kUnit, kReadWrite));
  CUstream stream;
  CU_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  {
    Blocker blocker(stream);
    CU_OK(cuMemsetD8Async(a, 1, kUnit, stream));
    CU_OK(cuMemUnmap(a, kUnit));
  }
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CU_OK(cuMemRelease(handle));
  CU_OK(cuMemAddressFree(a, kUnit));
}

// Unmapping while another thread's copy runs must wait for that copy, not pull the pages away.
TEST_F(Virtual, UnmapRacesWithCopies) {
  const CUdeviceptr a = reserve(kUnit);
  const auto handle = create(kUnit);
  void* pinned = nullptr;
  CU_OK(cuMemAllocHost(&pinned, kUnit));
  std::atomic<bool> stop{false};
  CUcontext own;
  CU_OK(cuCtxCreate(&own, nullptr, 0, 0));
  CU_OK(cuCtxSetCurrent(context_));
  std::thread copier([&] {
    CUstream stream;
    ASSERT_EQ(cuCtxSetCurrent(own), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    while (!stop) {  // ends with the illegal address at the latest
      cuMemcpyDtoHAsync(pinned, a, kUnit, stream);
      if (cuStreamSynchronize(stream) != CUDA_SUCCESS) {
        break;
      }
    }
  });
  for (int i = 0; i < 200; ++i) {
    CU_OK(cuMemMap(a, kUnit, 0, handle, 0));
    CU_OK(allow(a, kUnit, kReadWrite));
    CU_OK(cuMemUnmap(a, kUnit));
  }
  stop = true;
  copier.join();
  CU_OK(cuCtxDestroy(own));
  CU_OK(cuMemRelease(handle));
  CU_OK(cuMemAddressFree(a, kUnit));
}

}  // namespace
