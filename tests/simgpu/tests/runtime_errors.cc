// The runtime's memory of errors: last, peeked, sticky, of each thread; names and texts.
#include <cuda.h>
#include <simgpu.h>

#include "runtime_support.h"

namespace {

const bool g_alone = (be_alone(), true);

TEST(Errors, LastErrorIsKeptUntilAsked) {
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  RT_OK(cudaDeviceSynchronize());  // a success does not clear it
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Errors, NewestErrorWins) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(Errors, EachThreadHasItsOwn) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST(Errors, NotReadyIsRemembered) {
  cudaStream_t stream;
  RT_OK(cudaStreamCreate(&stream));
  {
    Gate gate(stream);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  }
  RT_OK(cudaStreamDestroy(stream));
}

TEST(Errors, NamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(54321)), "unrecognized error code");
}

// What people search for in logs reads the same from both libraries.
TEST(Errors, TextsAgreeWithTheDriver) {
  for (const int code : {1,   2,   3,   100, 101, 201, 209, 400, 500, 600, 700, 701,
                         702, 704, 705, 709, 710, 716, 719, 801, 900, 901, 904, 906}) {
    const char* text = nullptr;
    ASSERT_EQ(cuGetErrorString(static_cast<CUresult>(code), &text), CUDA_SUCCESS);
    EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(code)), text) << code;
  }
}

TEST(Errors, OutOfMemoryIsNotSticky) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, size_t{1} << 40), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  RT_OK(cudaMalloc(&memory, 1024));
  RT_OK(cudaFree(memory));
}

char g_faulty;  // stands for a kernel

TEST(Errors, FaultsOfTheDeviceAreSticky) {
  Module module;
  module.kernel(&g_faulty, "faulty").end();
  simgpu_register(
      "faulty", [](void* const*, const simgpuLaunch*, void*) { return 700; }, nullptr, 0, nullptr);
  RT_OK(cudaLaunchKernel(&g_faulty, dim3(1), dim3(1), nullptr, 0, nullptr));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorIllegalAddress);
  RT_OK(cudaDeviceReset());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  RT_OK(cudaMalloc(&memory, 4));
  RT_OK(cudaFree(memory));
}

TEST(Errors, DISABLED_Injected) {
  void* memory = nullptr;
  RT_OK(cudaMalloc(&memory, 4));
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  RT_OK(cudaMalloc(&memory, 4));
  EXPECT_EQ(cudaMemset(memory, 0, 4), cudaErrorUnknown);
  EXPECT_EQ(cudaMemset(memory, 0, 4), cudaErrorUnknown);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorNotPermitted);  // injected into the driver
  RT_OK(cudaLaunchHostFunc(
      nullptr, [](void*) {}, nullptr));  // fails when it runs
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

TEST(Errors, TestsCanInjectThem) {
  EXPECT_EQ(run_again("Errors.DISABLED_Injected",
                      {"SIMGPU_FAIL=cudaMalloc@2=2,cudaMemset@1+=999,cuStreamSynchronize@1=800,"
                       "cudaLaunchHostFunc@1=700:async"}),
            0);
}

}  // namespace
