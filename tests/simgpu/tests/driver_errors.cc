// Failure: injected, asynchronous, sticky; handles that are gone; use after fork.
#include "driver_support.h"

namespace driver_test {
namespace {

using Errors = Driver;

TEST_F(Errors, DISABLED_ThirdAllocationFails) {
  CUdeviceptr address = 0;
  EXPECT_OK(cuMemAlloc(&address, 512));
  EXPECT_OK(cuMemAlloc(&address, 512));
  EXPECT_CUDA(ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, 512));
  EXPECT_OK(cuMemAlloc(&address, 512));
}

TEST_F(Errors, InjectionHitsTheNthCall) {
  EXPECT_EQ(0, run_again("Errors.DISABLED_ThirdAllocationFails", "SIMGPU_FAIL=cuMemAlloc@3=2"));
  EXPECT_NE(0, run_again("Errors.DISABLED_ThirdAllocationFails", ""));
}

TEST_F(Errors, DISABLED_AsynchronousErrorSticks) {
  const CUstream s = stream(CU_STREAM_NON_BLOCKING);
  Gate gate;
  gate.hold(s);
  EXPECT_OK(launch(function("f"), s));
  EXPECT_OK(launch(function("f"), s));  // enqueued; fails when it runs
  gate.open();
  EXPECT_CUDA(ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
  CUdeviceptr address = 0;
  EXPECT_CUDA(ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&address, 512));
  EXPECT_CUDA(ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  int count = 0;
  EXPECT_OK(cuDeviceGetCount(&count));  // needs no context
}

TEST_F(Errors, AnAsynchronousErrorAppearsLaterAndStays) {
  EXPECT_EQ(0, run_again("Errors.DISABLED_AsynchronousErrorSticks",
                         "SIMGPU_FAIL=cuLaunchKernel@2=700:async"));
}

TEST_F(Errors, ABodyCanFailItsLaunch) {
  CUcontext own = nullptr;
  ASSERT_OK(cuCtxCreate(&own, nullptr, 0, 0));
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, "an image of another context"));
  CUfunction bad = nullptr;
  ASSERT_OK(cuModuleGetFunction(&bad, module, "bad"));
  const simgpuKernelBody fail = [](void* const*, const simgpuLaunch*, void*) {
    return static_cast<int>(CUDA_ERROR_LAUNCH_FAILED);
  };
  ASSERT_EQ(1, simgpu_register("bad", fail, nullptr, 0, nullptr));
  EXPECT_OK(launch(bad, nullptr));
  EXPECT_CUDA(ERROR_LAUNCH_FAILED, cuCtxSynchronize());
  // Only this context is lost.
  ASSERT_OK(cuCtxDestroy(own));
  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(Errors, LaunchesAreChecked) {
  const CUfunction f = function("f");
  const auto shape = [&](unsigned grid, unsigned block, unsigned shared) {
    return cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, nullptr, nullptr, nullptr);
  };
  EXPECT_CUDA(ERROR_INVALID_VALUE, shape(0, 32, 0));
  EXPECT_CUDA(ERROR_INVALID_VALUE, shape(1, 0, 0));
  EXPECT_CUDA(ERROR_INVALID_VALUE, shape(1, 1025, 0));
  EXPECT_CUDA(ERROR_INVALID_VALUE, shape(1, 32, 49 * 1024));
  EXPECT_OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 * 1024));
  EXPECT_OK(shape(1, 32, 49 * 1024));
  EXPECT_CUDA(ERROR_INVALID_HANDLE, launch(nullptr, nullptr));
  EXPECT_CUDA(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
              cuLaunchCooperativeKernel(f, 1000000, 1, 1, 1024, 1, 1, 0, nullptr, nullptr));
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(Errors, NoContextIsSaid) {
  std::thread([] {
    CUdeviceptr address = 0;
    EXPECT_CUDA(ERROR_INVALID_CONTEXT, cuMemAlloc(&address, 512));
    EXPECT_CUDA(ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    CUstream s = nullptr;
    EXPECT_CUDA(ERROR_INVALID_CONTEXT, cuStreamCreate(&s, 0));
  }).join();
}

TEST_F(Errors, AForkedChildIsNotInitialised) {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr address = 0;
    const bool right = cuMemAlloc(&address, 512) == CUDA_ERROR_NOT_INITIALIZED &&
                       cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(Errors, NamesAndTexts) {
  const char* text = nullptr;
  EXPECT_OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ("CUDA_ERROR_OUT_OF_MEMORY", text);
  EXPECT_OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ("out of memory", text);
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGetErrorName(static_cast<CUresult>(123456), &text));
}

TEST_F(Errors, DestroyingAContextEndsItsKernelsAndHandles) {
  CUcontext own = nullptr;
  ASSERT_OK(cuCtxCreate(&own, nullptr, 0, 0));
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, "an image of another context"));
  CUfunction forever = nullptr;
  ASSERT_OK(cuModuleGetFunction(&forever, module, "forever"));
  const simgpuKernelBody wait = [](void* const*, const simgpuLaunch* launch, void*) {
    while (!__atomic_load_n(launch->cancelled, __ATOMIC_RELAXED)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return 0;
  };
  ASSERT_EQ(1, simgpu_register("forever", wait, nullptr, 0, nullptr));
  EXPECT_OK(launch(forever, nullptr));
  EXPECT_OK(cuCtxDestroy(own));
  EXPECT_CUDA(ERROR_CONTEXT_IS_DESTROYED, cuCtxSetCurrent(own));
  EXPECT_CUDA(ERROR_INVALID_CONTEXT, cuCtxDestroy(own));
}

}  // namespace
}  // namespace driver_test
