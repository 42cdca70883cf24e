// Choosing devices, bringing up contexts when needed and not before, resetting.
#include <cuda.h>

#include <cstring>

#include "runtime_support.h"

namespace {

const bool g_alone = (be_alone("3"), true);

bool is_active(int device) {
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(device, &flags, &active), CUDA_SUCCESS);
  return active != 0;
}

CUcontext current() {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

// Each of these needs a process that has not used the device yet.
TEST(LazyInit, DISABLED_CountingCreatesNoContext) {
  int count = 0;
  RT_OK(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 3);
  int device = -1;
  RT_OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  cudaDeviceProp prop;
  RT_OK(cudaGetDeviceProperties(&prop, 1));
  int value = 0;
  RT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
  EXPECT_EQ(value, 32);
  EXPECT_FALSE(is_active(0));
  EXPECT_EQ(current(), nullptr);
  RT_OK(cudaFree(nullptr));
  EXPECT_TRUE(is_active(0));
  EXPECT_NE(current(), nullptr);
}

TEST(LazyInit, DISABLED_SetDeviceCreatesOne) {
  RT_OK(cudaSetDevice(2));
  EXPECT_TRUE(is_active(2));
  EXPECT_FALSE(is_active(0));
  EXPECT_NE(current(), nullptr);
}

TEST(LazyInit, DISABLED_InitDeviceDoesNotSelect) {
  RT_OK(cudaInitDevice(1, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid));
  EXPECT_TRUE(is_active(1));
  EXPECT_EQ(current(), nullptr);
  int device = -1;
  RT_OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  unsigned flags = 0;
  int active = 0;
  ASSERT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(flags & cudaDeviceScheduleMask, cudaDeviceScheduleBlockingSync);
}

TEST(LazyInit, DISABLED_FirstValidDeviceIsUsed) {
  int valid[] = {2, 1};
  RT_OK(cudaSetValidDevices(valid, 2));
  RT_OK(cudaFree(nullptr));
  EXPECT_TRUE(is_active(2));
  EXPECT_FALSE(is_active(0));
}

TEST(LazyInit, DISABLED_NoDevice) {
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaFree(nullptr), cudaErrorNoDevice);
}

TEST(LazyInit, HappensWhenNeeded) {
  for (const char* test : {"CountingCreatesNoContext", "SetDeviceCreatesOne",
                           "InitDeviceDoesNotSelect", "FirstValidDeviceIsUsed"}) {
    EXPECT_EQ(run_again(std::string("LazyInit.DISABLED_") + test, {}), 0) << test;
  }
  EXPECT_EQ(run_again("LazyInit.DISABLED_NoDevice", {"SIMGPU_DEVICES=0"}), 0);
}

TEST(Devices, EachThreadHasItsOwn) {
  RT_OK(cudaSetDevice(1));
  std::thread([] {
    int device = -1;
    RT_OK(cudaGetDevice(&device));
    EXPECT_EQ(device, 0);
    RT_OK(cudaSetDevice(2));
    void* memory = nullptr;
    RT_OK(cudaMalloc(&memory, 4));
    cudaPointerAttributes attributes;
    RT_OK(cudaPointerGetAttributes(&attributes, memory));
    EXPECT_EQ(attributes.device, 2);
    RT_OK(cudaFree(memory));
  }).join();
  int device = -1;
  RT_OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
  RT_OK(cudaSetDevice(0));
}

TEST(Devices, RefusesThoseThatDoNotExist) {
  cudaDeviceProp prop;
  int value = 0;
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDeviceProperties(&prop, 3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaInitDevice(3, 0, 0), cudaErrorInvalidDevice);
  (void)cudaGetLastError();
}

TEST(Devices, ContextsOfTheProgramAreHonoured) {
  RT_OK(cudaSetDevice(0));
  CUcontext own = nullptr;
  ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 1), CUDA_SUCCESS);
  int device = -1;
  RT_OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
  void* memory = nullptr;
  RT_OK(cudaMalloc(&memory, 4));
  CUcontext of_memory = nullptr;
  ASSERT_EQ(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_CONTEXT,
                                  reinterpret_cast<CUdeviceptr>(memory)),
            CUDA_SUCCESS);
  EXPECT_EQ(of_memory, own);
  RT_OK(cudaFree(memory));
  EXPECT_EQ(current(), own);
  ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
  RT_OK(cudaSetDevice(0));
}

TEST(Devices, ComesBackAfterTheProgramTookTheContextAway) {
  RT_OK(cudaSetDevice(1));
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  RT_OK(cudaFree(nullptr));
  int device = -1;
  RT_OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
  EXPECT_NE(current(), nullptr);
  RT_OK(cudaSetDevice(0));
}

TEST(Devices, ResetFreesEverythingAndStartsAnew) {
  RT_OK(cudaSetDevice(1));
  size_t before = 0, during = 0, after = 0, total = 0;
  void* memory = nullptr;
  RT_OK(cudaMemGetInfo(&before, &total));
  RT_OK(cudaMalloc(&memory, 1 << 20));
  RT_OK(cudaMemGetInfo(&during, &total));
  EXPECT_EQ(before - during, size_t{1} << 20);
  RT_OK(cudaDeviceReset());
  EXPECT_FALSE(is_active(1));
  RT_OK(cudaMemGetInfo(&after, &total));
  EXPECT_TRUE(is_active(1));
  EXPECT_EQ(after, before);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  (void)cudaGetLastError();
  RT_OK(cudaSetDevice(0));
}

TEST(Devices, OtherThreadsWorkOnAfterAReset) {
  RT_OK(cudaSetDevice(0));
  std::atomic<int> step = 0;
  std::thread other([&] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    step = 1;
    while (step != 2) {
      std::this_thread::yield();
    }
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
  });
  while (step != 1) {
    std::this_thread::yield();
  }
  RT_OK(cudaDeviceReset());
  step = 2;
  other.join();
}

TEST(Devices, PropertiesAreWhole) {
  cudaDeviceProp prop;
  memset(&prop, 0xff, sizeof prop);
  RT_OK(cudaGetDeviceProperties(&prop, 0));
  EXPECT_NE(strstr(prop.name, "simgpu"), nullptr) << prop.name;
  EXPECT_EQ(prop.totalGlobalMem, size_t{64} << 20);
  EXPECT_EQ(prop.warpSize, 32);
  // Programs divide by these.
  for (const int value :
       {prop.multiProcessorCount, prop.maxThreadsPerBlock, prop.maxThreadsPerMultiProcessor,
        prop.maxBlocksPerMultiProcessor, prop.regsPerBlock, prop.regsPerMultiprocessor,
        prop.maxThreadsDim[0], prop.maxGridSize[2], prop.memoryBusWidth, prop.l2CacheSize,
        prop.asyncEngineCount, prop.major}) {
    EXPECT_GT(value, 0);
  }
  EXPECT_GT(prop.sharedMemPerBlock, 0u);
  EXPECT_GT(prop.textureAlignment, 0u);
  int value = 0;
  RT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxBlocksPerMultiprocessor, 0));
  EXPECT_EQ(value, prop.maxBlocksPerMultiProcessor);
  cudaDeviceProp wish = {};
  int device = -1;
  RT_OK(cudaChooseDevice(&device, &wish));
  EXPECT_EQ(device, 0);
}

TEST(Devices, BusIdsLeadBack) {
  char id[32];
  int device = -1;
  RT_OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
  RT_OK(cudaDeviceGetByPCIBusId(&device, id));
  EXPECT_EQ(device, 1);
}

TEST(Devices, PeerAccess) {
  RT_OK(cudaSetDevice(0));
  int can = 0;
  RT_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  RT_OK(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  RT_OK(cudaDeviceDisablePeerAccess(1));
  (void)cudaGetLastError();
}

TEST(Devices, Atomics) {
  const cudaAtomicOperation operation = cudaAtomicOperationIntegerAdd;
  unsigned capabilities = 0;
  RT_OK(cudaDeviceGetHostAtomicCapabilities(&capabilities, &operation, 1, 0));
  RT_OK(cudaDeviceGetP2PAtomicCapabilities(&capabilities, &operation, 1, 0, 1));
  EXPECT_EQ(cudaDeviceGetHostAtomicCapabilities(&capabilities, &operation, 1, 9),
            cudaErrorInvalidDevice);
  (void)cudaGetLastError();
}

TEST(Devices, Versions) {
  int version = 0;
  RT_OK(cudaRuntimeGetVersion(&version));
  EXPECT_EQ(version, CUDART_VERSION);
  RT_OK(cudaDriverGetVersion(&version));
  EXPECT_GE(version, CUDART_VERSION);
}

TEST(Devices, LimitsAndCacheConfigs) {
  RT_OK(cudaSetDevice(0));
  size_t value = 0;
  RT_OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  RT_OK(cudaDeviceGetLimit(&value, cudaLimitStackSize));
  EXPECT_EQ(value, 4096u);
  cudaFuncCache config;
  RT_OK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
  RT_OK(cudaDeviceGetCacheConfig(&config));
  int least = -1, greatest = 1;
  RT_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, 0);
}

}  // namespace
