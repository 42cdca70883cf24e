// cuGetProcAddress in both forms, versions, per-thread variants, and everything the export list
// promises.
#include <dlfcn.h>

#include <fstream>
#include <set>

#include "driver_support.h"

#undef cuGetProcAddress

extern "C" CUresult cuGetProcAddress(const char*, void**, int, cuuint64_t);

namespace driver_test {
namespace {

void* exported(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return dlsym(library, name);
}

void* asked(const char* name, int version, cuuint64_t flags,
            CUdriverProcAddressQueryResult expected = CU_GET_PROC_ADDRESS_SUCCESS) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = {};
  EXPECT_EQ(CUDA_SUCCESS, cuGetProcAddress_v2(name, &address, version, flags, &status)) << name;
  EXPECT_EQ(expected, status) << name;
  return address;
}

TEST(Names, EveryNameOfTheVendorsListIsExported) {
  std::ifstream list(SIMGPU_EXPORTS_DIR "/cuda.txt");
  int count = 0;
  for (std::string name; std::getline(list, name); ++count) {
    EXPECT_NE(nullptr, exported(name.c_str())) << name;
  }
  EXPECT_EQ(637 + 2, count);  // two of CUDA 13.2
}

TEST(Names, OldVersionsGiveOldSymbols) {
  EXPECT_EQ(exported("cuMemAlloc_v2"), asked("cuMemAlloc", 3020, 0));
  EXPECT_EQ(exported("cuMemAlloc"), asked("cuMemAlloc", 2000, 0));
  EXPECT_EQ(exported("cuCtxGetDevice"), asked("cuCtxGetDevice", 2000, 0));
  EXPECT_EQ(exported("cuCtxGetDevice_v2"), asked("cuCtxGetDevice", 13000, 0));
  EXPECT_EQ(exported("cuCtxCreate_v2"), asked("cuCtxCreate", 3020, 0));
  EXPECT_EQ(exported("cuCtxCreate_v4"), asked("cuCtxCreate", 13000, 0));
  EXPECT_EQ(exported("cuStreamGetCaptureInfo_v2"), asked("cuStreamGetCaptureInfo", 11030, 0));
}

TEST(Names, PerThreadVariantsOnRequestOnly) {
  EXPECT_EQ(exported("cuLaunchKernel"), asked("cuLaunchKernel", 4000, 0));
  EXPECT_EQ(exported("cuLaunchKernel"), asked("cuLaunchKernel", 7000, 1));
  EXPECT_EQ(exported("cuLaunchKernel_ptsz"), asked("cuLaunchKernel", 7000, 2));
  EXPECT_EQ(exported("cuMemcpyHtoD_v2_ptds"), asked("cuMemcpyHtoD", 7000, 2));
  EXPECT_EQ(exported("cuMemAlloc_v2"), asked("cuMemAlloc", 7000, 2));  // has none
}

TEST(Names, WhatDoesNotExistIsSaid) {
  EXPECT_EQ(nullptr, asked("cuNoSuchCall", 13000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
  EXPECT_EQ(nullptr,
            asked("cuMemAllocAsync", 11000, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
  void* address = nullptr;
  EXPECT_CUDA(ERROR_INVALID_VALUE,
              cuGetProcAddress_v2("cuInit", &address, CUDA_VERSION + 1000, 0, nullptr));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &address, 13000, 8, nullptr));
}

TEST(Names, TheFourArgumentFormSaysNotFoundByItsResult) {
  void* address = nullptr;
  EXPECT_OK(cuGetProcAddress("cuInit", &address, 2000, 0));
  EXPECT_EQ(exported("cuInit"), address);
  EXPECT_CUDA(ERROR_NOT_FOUND, cuGetProcAddress("cuNoSuchCall", &address, 13000, 0));
  EXPECT_EQ(exported("cuGetProcAddress"), asked("cuGetProcAddress", 11030, 0));
  EXPECT_EQ(exported("cuGetProcAddress_v2"), asked("cuGetProcAddress", 12000, 0));
}

TEST(Names, CallsInsideTheLibraryCannotBeInterposed) {
  // -Bsymbolic: this program's own cuStreamCreateWithPriority would otherwise catch the driver's
  // internal call.
  ASSERT_OK(cuInit(0));
  CUcontext context = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, 0));  // calls cuStreamCreateWithPriority
  EXPECT_OK(cuStreamDestroy(stream));
}

}  // namespace
}  // namespace driver_test

// Seen by every library of this process that goes through its PLT.
CUresult cuStreamCreateWithPriority(CUstream*, unsigned, int) {
  return CUDA_ERROR_UNKNOWN;
}
